//! The form of a statement that does many at once: its parameters become columns of arrays.
//!
//! A SELECT is asked for each row of parameters, and its answers come with the number of that row; an INSERT of one row becomes
//! one of many. There is one text for each statement, the one that does a single thing; this is only another way to send it.

use postgres::types::Type;
use std::fmt::Write as _;

/// The column that says which row of parameters an answer is for, beside the columns of the statement itself.
pub(super) const NUMBER: &str = "asked_number";

/// Returns whether a statement only reads.
pub(super) fn is_select(sql: &str) -> bool {
    sql.trim_start().starts_with("SELECT")
}

/// The table a row is inserted into, if that is what the statement does.
pub(super) fn inserts_into(sql: &str) -> Option<&str> {
    sql.trim_start().strip_prefix("INSERT INTO ")?.split_whitespace().next()
}

/// The statement for many rows of parameters of these types; none if there is no such form.
pub(super) fn statement(sql: &str, types: &[Type]) -> Option<String> {
    let columns = columns(types)?;
    let names: Vec<String> = (1..=types.len()).map(|n| format!("p{n}")).collect();
    let names = names.join(", ");
    if is_select(sql) {
        // A lock would be taken in any order.
        if sql.contains("FOR UPDATE") || sql.contains("FOR SHARE") {
            return None;
        }
        let (one, asked) =
            (with_columns(sql), format!("unnest({columns}) WITH ORDINALITY AS asked ({names}, {NUMBER})"));
        return Some(if sql.contains("ORDER BY") {
            format!(
                "SELECT asked.{NUMBER}, found.* FROM {asked}
                 CROSS JOIN LATERAL (SELECT one.*, row_number() OVER () AS row_place FROM ({one}) AS one) AS found
                 ORDER BY asked.{NUMBER}, found.row_place"
            )
        } else {
            format!("SELECT asked.{NUMBER}, found.* FROM {asked} CROSS JOIN LATERAL ({one}) AS found")
        });
    }
    let (head, values) = sql.split_once("VALUES (")?;
    // Clauses after the values (ON CONFLICT, RETURNING) are about one row.
    let values = values.trim_end().strip_suffix(')').filter(|_| inserts_into(sql).is_some())?;
    let values = with_columns(values);
    Some(format!("{head} SELECT {values} FROM unnest({columns}) AS asked ({names})"))
}

/// `$1::bytea[], $2::bigint[], …`
fn columns(types: &[Type]) -> Option<String> {
    let mut columns = String::new();
    for (n, ty) in types.iter().enumerate() {
        let name = match *ty {
            Type::INT8 => "bigint",
            Type::TEXT | Type::VARCHAR => "text",
            Type::BYTEA => "bytea",
            _ => return None,
        };
        let comma = if n == 0 { "" } else { ", " };
        // Writing to a string cannot fail.
        let _infallible = write!(columns, "{comma}${}::{name}[]", n + 1);
    }
    (!types.is_empty()).then_some(columns)
}

/// `$12` becomes `asked.p12`.
fn with_columns(sql: &str) -> String {
    sql.replace('$', "asked.p")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_insert_of_many() {
        let one = "INSERT INTO t (a, b, c) VALUES ($1, CAST($2 AS BIGINT), $1)";
        assert_eq!(
            statement(one, &[Type::BYTEA, Type::INT8]).unwrap(),
            "INSERT INTO t (a, b, c)  SELECT asked.p1, CAST(asked.p2 AS BIGINT), asked.p1 \
             FROM unnest($1::bytea[], $2::bigint[]) AS asked (p1, p2)"
        );
        assert_eq!(inserts_into(one), Some("t"));
    }

    #[test]
    fn answers_keep_their_order() {
        let ordered = statement("SELECT a FROM t WHERE b = $1 ORDER BY a", &[Type::INT8]).unwrap();
        assert!(ordered.ends_with("ORDER BY asked.asked_number, found.row_place"), "{ordered}");
        let plain = statement("SELECT a FROM t WHERE b = $1", &[Type::INT8]).unwrap();
        assert!(!plain.contains("row_place"), "{plain}");
    }

    #[test]
    fn what_has_no_such_form() {
        for (sql, ty) in [
            ("INSERT INTO t (a) VALUES ($1) ON CONFLICT (a) DO NOTHING", Type::INT8),
            ("INSERT INTO t (a) VALUES ($1) RETURNING a", Type::INT8),
            ("UPDATE t SET a = $1", Type::INT8),
            ("SELECT a FROM t WHERE b = $1 FOR UPDATE", Type::INT8),
            ("SELECT a FROM t WHERE b = $1", Type::INT4),
        ] {
            assert_eq!(statement(sql, &[ty]), None, "{sql}");
        }
        assert_eq!(statement("SELECT 1", &[]), None);
    }
}
