"""Statements told apart, and what a learner's SQL may not do."""

from __future__ import annotations

import time
from typing import Any

import pytest

from durable_mini import Error
from durable_mini.errors import SQL_EMPTY, SQL_NOT_AUTHORIZED, SQL_TRANSACTION
from durable_mini.storage.guard import statements
from tests.conftest import Inside


def texts(sql: str) -> list[str]:
    return [statement.text.strip() for statement in statements(sql)]


@pytest.mark.parametrize(
    ("sql", "parts"),
    [
        ("SELECT 1", ["SELECT 1"]),
        ("SELECT 1;", ["SELECT 1;"]),
        ("SELECT 1; SELECT 2", ["SELECT 1;", "SELECT 2"]),
        (" ;; SELECT 1 ;; ", [";; SELECT 1 ;"]),
        ("SELECT ';'; SELECT \";\"", ["SELECT ';';", 'SELECT ";"']),
        ("SELECT 'it''s; fine'; SELECT 2", ["SELECT 'it''s; fine';", "SELECT 2"]),
        ("-- a; b\nSELECT 1; /* ; */", ["-- a; b\nSELECT 1;"]),
        ("/* ; */ SELECT 1; -- ;", ["/* ; */ SELECT 1;"]),
        ("SELECT 1 /* tail", ["SELECT 1 /* tail"]),
        (
            "CREATE TRIGGER t AFTER INSERT ON x BEGIN SELECT 1; SELECT 2; END; SELECT 3",
            ["CREATE TRIGGER t AFTER INSERT ON x BEGIN SELECT 1; SELECT 2; END;", "SELECT 3"],
        ),
    ],
)
def test_a_list_of_statements_is_cut_where_each_is_complete(sql: str, parts: list[str]) -> None:
    assert [part.strip("; ") for part in texts(sql)] == [part.strip("; ") for part in parts]


@pytest.mark.parametrize("prefix", ["", " ", "\n\t ", ";", "--x\n", "/**/", "/*x*/", "/* a; b */\n-- c\n ;/**/"])
@pytest.mark.parametrize("suffix", ["", ";", " -- x", "/*x*/"])
@pytest.mark.parametrize("case", [str.upper, str.lower, str.title])
def test_the_first_word_decides_whatever_stands_before_it(prefix: str, suffix: str, case: Any) -> None:
    for word in ("begin", "commit", "end", "rollback", "savepoint", "release"):
        with pytest.raises(Error) as raised:
            statements(f"{prefix}{case(word)} x{suffix}")
        assert str(raised.value) == SQL_TRANSACTION
    for word in ("attach", "detach", "vacuum"):
        with pytest.raises(Error) as raised:
            statements(f"{prefix}{case(word)} x{suffix}")
        assert str(raised.value) == SQL_NOT_AUTHORIZED
    assert len(statements(f"{prefix}{case('select')} 1{suffix}")) == 1


@pytest.mark.parametrize("sql", ["", " ", ";", ";;\n;", "--", "-- x", "/**/", "/* x", "/* x */ ; -- y\n/**/"])
def test_nothing_but_blanks_and_comments_is_no_statement(sql: str) -> None:
    with pytest.raises(Error) as raised:
        statements(sql)
    assert str(raised.value) == SQL_EMPTY


@pytest.mark.parametrize(
    ("sql", "writes"),
    [
        ("SELECT 1", False),
        ("VALUES (1)", False),
        ("EXPLAIN INSERT INTO t VALUES (1)", False),
        ("PRAGMA table_info(t)", False),
        ("WITH x AS (SELECT 1) SELECT * FROM x", False),
        ("WITH x AS (SELECT 1) INSERT INTO t SELECT * FROM x", True),
        ("/* SELECT */ INSERT INTO t VALUES (1)", True),
        ("INSERT INTO t VALUES (1) RETURNING *", True),
        ("CREATE TABLE t (a)", True),
        ("DROP TABLE t", True),
    ],
)
def test_statements_that_write_are_told_from_those_that_read(sql: str, writes: bool) -> None:
    assert [statement.writes for statement in statements(sql)] == [writes]


@pytest.mark.parametrize("blanks", [" " * 5_000, "\n\t" * 5_000, "/* x */ " * 2_000, "-- x\n" * 2_000, ";" * 1_000])
def test_a_deeply_indented_statement_is_split_at_once(blanks: str) -> None:
    statements.cache_clear()
    begun = time.process_time()
    assert len(statements(f"{blanks}SELECT 1{blanks}")) == 1
    with pytest.raises(Error):
        statements(blanks)
    assert time.process_time() - begun < 2  # a backtracking pattern needed centuries


def test_every_text_of_a_learner_begins_with_a_blank_so_that_none_equals_one_of_the_runtimes() -> None:
    for sql in ("SELECT 1", "SELECT value FROM _cf_KV WHERE key = ?", "  SELECT 1"):
        assert all(statement.text.startswith(" ") for statement in statements(sql))


@pytest.mark.parametrize(
    "own",
    ["SELECT value FROM _cf_KV WHERE key = 'k'", "SELECT value FROM _cf_METADATA WHERE key = 1", "BEGIN IMMEDIATE"],
)
def test_a_text_that_the_runtime_itself_has_just_used_is_still_refused(inside: Inside, own: str) -> None:
    async def body(o: Any) -> None:
        await o.ctx.storage.put("k", 1)
        await o.ctx.storage.get("k")
        await o.ctx.storage.setAlarm(10**12 * 2)
        o.ctx.storage.sql.exec(own)

    with pytest.raises(Error):
        inside(body)


@pytest.mark.parametrize("new", ["_cf_KV", "_cf_METADATA", '"_cf_KV"', "_CF_kv", "_cf_anything"])
def test_no_table_can_be_renamed_into_the_reserved_names(inside: Inside, new: str) -> None:
    async def body(o: Any) -> Any:
        sql = o.ctx.storage.sql
        sql.exec("CREATE TABLE t (key TEXT PRIMARY KEY, value BLOB); INSERT INTO t VALUES ('k', x'00')")
        with pytest.raises(Error):
            sql.exec(f"ALTER TABLE t RENAME TO {new}")
        names = [row.name for row in sql.exec("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return [names, await o.ctx.storage.get("k"), await o.ctx.storage.getAlarm()]

    assert inside(body) == [["t"], None, None]


def test_a_table_can_be_renamed_to_any_other_name(inside: Inside) -> None:
    async def body(o: Any) -> Any:
        sql = o.ctx.storage.sql
        sql.exec("CREATE TABLE t (a, b); INSERT INTO t VALUES (1, 2)")
        sql.exec("ALTER TABLE t RENAME TO u; ALTER TABLE u RENAME COLUMN a TO c; ALTER TABLE u ADD COLUMN d DEFAULT 5")
        return dict(sql.exec("SELECT * FROM u").one())

    assert inside(body) == {"c": 1, "b": 2, "d": 5}


@pytest.mark.parametrize("function", ["sqlite_version()", "sqlite_source_id()", "load_extension('x')"])
def test_functions_that_tell_of_the_machine_are_not_authorized(inside: Inside, function: str) -> None:
    with pytest.raises(Error, match=r"^not authorized to use function: "):
        inside(lambda o: o.ctx.storage.sql.exec(f"SELECT {function}").toArray())


@pytest.mark.parametrize(
    "pragma", ["table_info(t)", "table_list", "index_list(t)", "foreign_key_list(t)", "foreign_keys", "page_size",
               "defer_foreign_keys = ON", "foreign_key_check", "quick_check", "optimize"]
)  # fmt: skip
def test_pragmas_that_look_or_concern_one_turn_are_allowed(inside: Inside, pragma: str) -> None:
    inside(lambda o: o.ctx.storage.sql.exec(f"CREATE TABLE t (a); PRAGMA {pragma}").toArray())


@pytest.mark.parametrize(
    "sql",
    [
        "CREATE INDEX i ON t (a); REINDEX; ANALYZE",
        "CREATE VIRTUAL TABLE f USING fts5(text); INSERT INTO f VALUES ('hi'); SELECT * FROM f WHERE f MATCH 'hi'",
        "CREATE TRIGGER tr AFTER INSERT ON t BEGIN UPDATE t SET a = a + 1; END; INSERT INTO t VALUES (1)",
        "CREATE VIEW v AS SELECT * FROM t; SELECT * FROM v",
        "INSERT INTO t VALUES (1) ON CONFLICT DO NOTHING RETURNING a",
        "SELECT json_extract('{\"a\": 1}', '$.a'), json('[1]')",
        "EXPLAIN QUERY PLAN SELECT * FROM t",
    ],
)
def test_ordinary_sql_of_many_kinds_is_allowed(inside: Inside, sql: str) -> None:
    inside(lambda o: o.ctx.storage.sql.exec("CREATE TABLE t (a)").toArray())
    inside(lambda o: o.ctx.storage.sql.exec(sql).toArray())
