<?php

// Books an order and adds its notice, in one transaction, by PDO: on PostgreSQL, MySQL, MariaDB and SQLite.
//
//     apt-get install php-cli php-pgsql php-mysql php-sqlite3
//     DATABASE_URL='pgsql:host=db.example;dbname=shop;user=app' php with_pdo.php 7 "7 wheels" commit
//     DATABASE_URL='mysql:host=db.example;dbname=shop;user=app;charset=utf8mb4' php with_pdo.php 7 "7 wheels" commit
//     DATABASE_URL=sqlite:shop.db php with_pdo.php 7 "7 wheels" commit
//
// `rollback` in place of `commit` leaves neither. An error is printed with exit code 1, and leaves neither.
// Needed before: the tables of solid-notify (`migrate`), a definition `order_booked`, a table `orders (id bigint PRIMARY KEY, item text)`
// (on MySQL and MariaDB with the character set utf8mb4 and the engine InnoDB).
// The account needs INSERT on `orders`, and what the section "Accounts" of the book lists.
//
// The chapter "Any language" of the book shows a region of this file.

declare(strict_types=1);

// [book]
/** Books an order and adds its notice, in the caller's transaction. */
function book(PDO $db, int $id, string $item): void
{
    $db->prepare('INSERT INTO orders (id, item) VALUES (?, ?)')->execute([$id, $item]);
    $add = match ($db->getAttribute(PDO::ATTR_DRIVER_NAME)) {
        'pgsql' => "SELECT notify_add('order_booked', ?)",
        'mysql' => "CALL notify_add('order_booked', ?)",
        'sqlite' => "INSERT INTO notify_add (name, param) VALUES ('order_booked', ?)",
    };
    $order = json_encode(['id' => $id, 'item' => $item], JSON_THROW_ON_ERROR);
    $db->prepare($add)->execute([$order]);
}

function run(string $dsn, int $id, string $item, string $end): void
{
    $db = new PDO($dsn); // errors are exceptions; on MySQL the DSN has charset=utf8mb4
    $db->beginTransaction();
    try {
        book($db, $id, $item);
    } catch (Throwable $error) {
        $db->rollBack();
        throw $error;
    }
    $end === 'commit' ? $db->commit() : $db->rollBack();
}
// [end]

try {
    run(getenv('DATABASE_URL'), (int) $argv[1], $argv[2], $argv[3]);
} catch (Throwable $error) {
    fwrite(STDERR, $error->getMessage() . "\n");
    exit(1);
}
