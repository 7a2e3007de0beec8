//! The statements that add a notice, in the words of each database.

use test_support::{Database, MariaDb, MySql, Postgres, Sqlite};

/// A notice to be added.
#[derive(Clone, Copy)]
pub struct Add<'a> {
    pub name: Option<&'a str>,
    pub param: Option<&'a str>,
    pub description: Option<&'a str>,
    /// Seconds, as they are written in SQL.
    pub delay: Option<&'a str>,
    pub ordering_key: Option<&'a str>,
    pub until_claimed: Option<&'a str>,
    pub dedupe_key: Option<&'a str>,
    pub trace_context: Option<&'a str>,
    /// A number, as it is written in SQL.
    pub max_tries: Option<&'a str>,
    /// A time in UTC.
    pub expires_at: Option<&'a str>,
    pub tag: Option<&'a str>,
}

impl<'a> Add<'a> {
    pub fn new(name: &'a str, param: &'a str) -> Self {
        let (description, delay, ordering_key, dedupe_key, trace_context) = (None, None, None, None, None);
        let (name, param, until_claimed) = (Some(name), Some(param), None);
        let (max_tries, expires_at, tag) = (None, None, None);
        Self {
            name,
            param,
            description,
            delay,
            ordering_key,
            until_claimed,
            dedupe_key,
            trace_context,
            max_tries,
            expires_at,
            tag,
        }
    }

    /// All of it, in the order that every database has.
    fn list(&self, literal: fn(&str) -> String, delay: fn(&str) -> String) -> String {
        let text = |text: Option<&str>| text.map_or("NULL".to_owned(), literal);
        [
            text(self.name),
            text(self.param),
            text(self.description),
            self.delay.map_or("NULL".to_owned(), delay),
            text(self.ordering_key),
            text(self.until_claimed),
            text(self.dedupe_key),
            text(self.trace_context),
            self.max_tries.unwrap_or("NULL").to_owned(),
            text(self.expires_at),
            text(self.tag),
        ]
        .join(", ")
    }
}

/// How a notice is added by plain SQL.
pub trait Plain: Database {
    /// Adds a notice `7` of `sync`, in as few words as there are.
    const ADD_SEVEN: &'static str;
    /// A business table whose triggers add notices of `order_changed`, which have a JSON object of the row.
    const ORDERS: &'static str;
    /// The error for a parameter that is no JSON.
    const NOT_JSON: &'static str = "notify_add: the parameter is not JSON";

    /// The results of an ack: applied, already succeeded, cancelled, of a dead letter, unknown. None where it returns nothing.
    const ANSWERS: Option<[&'static str; 5]> =
        Some(["applied", "already_succeeded", "cancelled", "dead_letter_acked", "unknown"]);
    /// A business table whose trigger acks the notice of each row.
    const ANSWERS_TABLE: &'static str;

    /// The statement that acks a notice.
    fn ack(id: i64) -> String;

    /// The statement with all arguments.
    fn add(notice: &Add) -> String;

    /// The error for a name without a definition.
    fn no_definition(name: &str) -> String {
        format!("notify_add: there is no definition {}", quoted(name))
    }
}

/// As the standard has it.
pub fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

impl Plain for Postgres {
    const ADD_SEVEN: &'static str = "SELECT notify_add('sync', '7');";
    const ORDERS: &'static str = "
        CREATE TABLE orders (id bigint PRIMARY KEY, state text);
        CREATE FUNCTION order_changed() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            PERFORM notify_add('order_changed', to_json(NEW));
            RETURN NULL;
        END $$;
        CREATE TRIGGER order_changed AFTER INSERT OR UPDATE ON orders FOR EACH ROW EXECUTE FUNCTION order_changed();";
    const NOT_JSON: &'static str = "invalid input syntax for type json";

    const ANSWERS_TABLE: &'static str = "
        CREATE TABLE replies (notice bigint);
        CREATE FUNCTION replied() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            PERFORM notify_ack(NEW.notice);
            RETURN NULL;
        END $$;
        CREATE TRIGGER replied AFTER INSERT ON replies FOR EACH ROW EXECUTE FUNCTION replied();";

    fn ack(id: i64) -> String {
        format!("SELECT notify_ack({id});")
    }

    fn add(notice: &Add) -> String {
        format!("SELECT notify_add({});", notice.list(quoted, |seconds| format!("make_interval(secs => {seconds})")))
    }
}

macro_rules! mysql_family {
    ($database:ty) => {
        impl Plain for $database {
            const ADD_SEVEN: &'static str = "CALL notify_add('sync', '7');";
            const ORDERS: &'static str = "
                CREATE TABLE orders (id bigint PRIMARY KEY, state varchar(50)) CHARACTER SET utf8mb4;
                CREATE TRIGGER order_added AFTER INSERT ON orders FOR EACH ROW
                    CALL notify_add('order_changed', json_object('id', NEW.id, 'state', NEW.state));
                CREATE TRIGGER order_changed AFTER UPDATE ON orders FOR EACH ROW
                    CALL notify_add('order_changed', json_object('id', NEW.id, 'state', NEW.state));";

            const ANSWERS_TABLE: &'static str = "
                CREATE TABLE replies (notice bigint);
                CREATE TRIGGER replied AFTER INSERT ON replies FOR EACH ROW CALL notify_ack(NEW.notice, @result);";

            fn ack(id: i64) -> String {
                format!("CALL notify_ack({id}, @result); SELECT @result;")
            }

            fn add(notice: &Add) -> String {
                let list = notice.list(|text| quoted(&text.replace('\\', r"\\")), str::to_owned);
                format!("CALL notify_add_with({list}, @id);")
            }
        }
    };
}
mysql_family!(MariaDb);
mysql_family!(MySql);

impl Plain for Sqlite {
    const ADD_SEVEN: &'static str = "INSERT INTO notify_add (name, param) VALUES ('sync', '7');";
    const ORDERS: &'static str = "
        CREATE TABLE orders (id integer PRIMARY KEY, state text);
        CREATE TRIGGER order_added AFTER INSERT ON orders BEGIN
            INSERT INTO notify_add (name, param)
            VALUES ('order_changed', json_object('id', NEW.id, 'state', NEW.state));
        END;
        CREATE TRIGGER order_changed AFTER UPDATE ON orders BEGIN
            INSERT INTO notify_add (name, param)
            VALUES ('order_changed', json_object('id', NEW.id, 'state', NEW.state));
        END;";

    const ANSWERS: Option<[&'static str; 5]> = None;
    const ANSWERS_TABLE: &'static str = "
        CREATE TABLE replies (notice integer);
        CREATE TRIGGER replied AFTER INSERT ON replies BEGIN
            INSERT INTO notify_ack (id) VALUES (NEW.notice);
        END;";

    fn ack(id: i64) -> String {
        format!("INSERT INTO notify_ack (id) VALUES ({id});")
    }

    fn add(notice: &Add) -> String {
        format!("INSERT INTO notify_add VALUES ({});", notice.list(quoted, str::to_owned))
    }

    /// Messages are constant here.
    fn no_definition(_: &str) -> String {
        "notify_add: there is no definition of this name".to_owned()
    }
}
