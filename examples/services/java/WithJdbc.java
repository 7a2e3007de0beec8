// Books an order and adds its notice, in one transaction, by JDBC: on PostgreSQL, MySQL, MariaDB and SQLite.
//
//     apt-get install default-jdk-headless libpostgresql-jdbc-java libmariadb-java libxerial-sqlite-jdbc-java
//     export CLASSPATH=/usr/share/java/postgresql.jar:/usr/share/java/mariadb-java-client.jar:/usr/share/java/sqlite-jdbc.jar
//     DATABASE_URL='jdbc:postgresql://db.example/shop?user=app' java WithJdbc.java 7 "7 wheels" commit
//     DATABASE_URL='jdbc:mariadb://db.example:3306/shop?user=app' java WithJdbc.java 7 "7 wheels" commit
//     DATABASE_URL=jdbc:sqlite:shop.db java WithJdbc.java 7 "7 wheels" commit
//
// `rollback` in place of `commit` leaves neither. An error is printed with exit code 1, and leaves neither.
// Needed before: the tables of solid-notify (`migrate`), a definition `order_booked`, a table `orders (id bigint PRIMARY KEY, item text)`
// (on MySQL and MariaDB with the character set utf8mb4 and the engine InnoDB).
// The account needs INSERT on `orders`, and what the section "Accounts" of the book lists.
// Java reads the arguments in the encoding of the locale: use one of UTF-8, such as LC_ALL=C.UTF-8.
//
// The chapter "Any language" of the book shows a region of this file.

import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.SQLException;

public class WithJdbc {
    // [book]
    /** Books an order and adds its notice, in the caller's transaction. */
    static void book(Connection db, long id, String item) throws SQLException {
        execute(db, "INSERT INTO orders (id, item) VALUES (?, ?)", id, item);
        // Java has no JSON of its own, so the database makes it.
        execute(db, switch (db.getMetaData().getDatabaseProductName()) {
            case "PostgreSQL" -> "SELECT notify_add('order_booked', json_build_object('id', ?, 'item', ?))";
            case "MySQL", "MariaDB" -> "CALL notify_add('order_booked', json_object('id', ?, 'item', ?))";
            case "SQLite" -> "INSERT INTO notify_add (name, param) VALUES ('order_booked', json_object('id', ?, 'item', ?))";
            default -> throw new SQLException("no statement for this database");
        }, id, item);
    }

    static void execute(Connection db, String sql, long id, String item) throws SQLException {
        try (var statement = db.prepareStatement(sql)) {
            statement.setLong(1, id);
            statement.setString(2, item);
            statement.execute();
        }
    }

    static void run(String url, long id, String item, String end) throws SQLException {
        try (var db = DriverManager.getConnection(url)) {
            db.setAutoCommit(false); // the first statement begins a transaction
            try {
                book(db, id, item);
            } catch (SQLException error) {
                db.rollback();
                throw error;
            }
            if (end.equals("commit")) {
                db.commit();
            } else {
                db.rollback();
            }
        }
    }
    // [end]

    public static void main(String[] arguments) throws SQLException {
        run(System.getenv("DATABASE_URL"), Long.parseLong(arguments[0]), arguments[1], arguments[2]);
    }
}
