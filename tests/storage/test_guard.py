"""Statements told apart, and what a learner's SQL may not do."""

from __future__ import annotations

import time
from typing import Any

import pytest

from durable_mini import Error
from durable_mini.errors import SQL_EMPTY, SQL_NOT_AUTHORIZED, SQL_TRANSACTION, SQL_VACUUM
from durable_mini.storage.guard import statements
from tests.conftest import Inside


def run(inside: Inside, sql: str) -> Any:
    """What ``sql`` gives inside an object."""
    return inside(lambda o: o.ctx.storage.sql.exec(sql).toArray())


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
    for word, says in (("attach", SQL_NOT_AUTHORIZED), ("detach", SQL_NOT_AUTHORIZED), ("vacuum", SQL_VACUUM)):
        with pytest.raises(Error) as raised:
            statements(f"{prefix}{case(word)} x{suffix}")
        assert str(raised.value) == says
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
        ("WITH x AS (SELECT 1) REPLACE INTO t SELECT * FROM x", True),
        ("WITH x AS (SELECT replace('a', 'a', 'delete')) SELECT * FROM x -- update", False),
        ('WITH x AS (SELECT 1 AS "update") SELECT * FROM x', False),
        ("PRAGMA defer_foreign_keys = ON", True),
        ("PRAGMA optimize", True),
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


@pytest.mark.parametrize(
    "function", ["sqlite_version()", "sqlite_source_id()", "sqlite_compileoption_get(0)",
                 "sqlite_compileoption_used('x')", "sqlite_log(1, 'x')", "power(2, 3)"]
)  # fmt: skip
def test_functions_off_the_real_runtimes_list_are_not_authorized(inside: Inside, function: str) -> None:
    with pytest.raises(Error) as raised:
        inside(lambda o: o.ctx.storage.sql.exec(f"SELECT {function}").toArray())
    assert str(raised.value) == f"not authorized to use function: {function.partition('(')[0]}: SQLITE_ERROR"


def test_an_extension_is_not_loaded(inside: Inside) -> None:
    with pytest.raises(Error) as raised:
        inside(lambda o: o.ctx.storage.sql.exec("SELECT load_extension('x')").toArray())
    assert str(raised.value) == "not authorized: SQLITE_ERROR"


@pytest.mark.parametrize("module", ["fts4(a)", "fts3(a)", "dbstat", "csv(data='1')", "geopoly"])
def test_virtual_tables_are_of_full_text_and_of_space_only(inside: Inside, module: str) -> None:
    with pytest.raises(Error) as raised:
        run(inside, f"CREATE VIRTUAL TABLE v USING {module}")
    assert str(raised.value) == SQL_NOT_AUTHORIZED
    run(inside, "CREATE VIRTUAL TABLE v USING FTS5(a)")
    run(inside, "CREATE VIRTUAL TABLE r USING rtree_i32(id, a, b); DROP TABLE r")


@pytest.mark.parametrize(
    ("sql", "says"),
    [
        ("SELECT 'a' UNION ALL SELECT value FROM f", "access to _cf_METADATA.key is prohibited: SQLITE_AUTH"),
        ("SELECT 'a' UNION ALL SELECT name FROM pragma_function_list", SQL_NOT_AUTHORIZED),
        ("SELECT x.value, p.name FROM json_each('[1,2]') x, pragma_table_info(iif(x.value = 2, '_cf_KV', 't')) p",
         SQL_NOT_AUTHORIZED),
    ],
    ids=["full text over the runtime's own table", "list of functions", "columns of the runtime's table"],
)  # fmt: skip
def test_what_a_virtual_table_reads_late_is_judged_as_well(inside: Inside, sql: str, says: str) -> None:
    """SQLite prepares statements of its own when a later row is asked for."""

    async def body(o: Any) -> list[Any]:
        await o.ctx.storage.put("secret", 1)
        await o.ctx.storage.setAlarm(10**12 * 2)
        o.ctx.storage.sql.exec(
            "CREATE TABLE t (a); CREATE VIRTUAL TABLE f USING fts5(value, content=_cf_METADATA, content_rowid=key)"
        )
        return list(o.ctx.storage.sql.exec(sql).raw())

    with pytest.raises(Error) as raised:
        inside(body)
    assert str(raised.value) == says


def test_ANALYZE_and_REINDEX_work_though_the_runtimes_own_tables_are_there(inside: Inside) -> None:
    async def body(o: Any) -> None:
        await o.ctx.storage.put("k", 1)
        await o.ctx.storage.setAlarm(10**12 * 2)
        o.ctx.storage.sql.exec("CREATE TABLE t (a); CREATE INDEX i ON t (a); INSERT INTO t VALUES (1)")
        o.ctx.storage.sql.exec("ANALYZE; PRAGMA optimize; REINDEX i; REINDEX t")

    inside(body)


SWITCHES = [
    "case_sensitive_like", "ignore_check_constraints", "legacy_alter_table", "recursive_triggers",
    "reverse_unordered_selects", "foreign_keys", "defer_foreign_keys",
]  # fmt: skip


@pytest.mark.parametrize("switch", SWITCHES)
@pytest.mark.parametrize("value", ["1", "OFF", "'yes'", '"False"'])
def test_switches_take_a_boolean_and_nothing_else(inside: Inside, switch: str, value: str) -> None:
    run(inside, f"PRAGMA {switch} = {value}")
    run(inside, f"PRAGMA {switch}")
    for other in ("2", "maybe", "'1; 2'"):
        with pytest.raises(Error) as raised:
            run(inside, f"PRAGMA {switch} = {other}")
        assert str(raised.value) == SQL_NOT_AUTHORIZED


@pytest.mark.parametrize("end", ["evict", "crash"])
def test_a_switch_lasts_as_long_as_its_instance(inside: Inside, end: str) -> None:
    def like(o: Any) -> Any:
        return o.ctx.storage.sql.exec("SELECT 'a' LIKE 'A' AS same").one().same

    def negative(o: Any) -> None:
        o.ctx.storage.sql.exec("INSERT INTO t VALUES (-1)")

    run(inside, "CREATE TABLE t (n CHECK (n > 0))")
    for _ in range(2):
        assert inside(like) == 1
        for switch in ("case_sensitive_like", "ignore_check_constraints"):
            run(inside, f"PRAGMA {switch} = ON")
        assert inside(like) == 0
        inside(negative)
        getattr(inside.world, end)(inside.stub())
        with pytest.raises(Error, match="CHECK constraint failed"):
            inside(negative)


def test_deferring_foreign_keys_lasts_to_the_end_of_the_turn_whatever_is_read_between(inside: Inside) -> None:
    run(inside, "CREATE TABLE p (id PRIMARY KEY); CREATE TABLE c (p REFERENCES p)")

    def body(o: Any) -> int:
        sql = o.ctx.storage.sql
        sql.exec("PRAGMA defer_foreign_keys = ON")
        sql.exec("SELECT * FROM p").toArray()
        sql.exec("INSERT INTO c VALUES (1); INSERT INTO p VALUES (1)")
        return int(sql.exec("SELECT count(*) AS n FROM c").one().n)

    assert inside(body) == 1
    with pytest.raises(Error, match=r"^FOREIGN KEY constraint failed"):
        run(inside, "INSERT INTO c VALUES (2)")


@pytest.mark.parametrize(
    ("sql", "bindings", "row"),
    [
        ("SELECT :a AS x, :b AS y, :a AS z", (1, 2), [1, 2, 1]),
        ("SELECT @a AS x, $b AS y, ? AS z", (1, 2, 3), [1, 2, 3]),
        ("SELECT ?2 AS x, ? AS y, :n AS z, ?1 AS w", (1, 2, 3, 4), [2, 3, 4, 1]),
        (
            """SELECT ':a' AS x, ":a" AS y, json_extract('{"b": 5}', '$.b') AS z, :a AS w /* :b */ -- ?
            FROM (SELECT 7 AS ':a')""",
            (1,),
            [":a", 7, 5, 1],
        ),
    ],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore:Binding [0-9]:DeprecationWarning")  # of Python 3.12 and 3.13; nobody sees it
def test_named_parameters_take_the_bindings_in_their_order(
    inside: Inside, sql: str, bindings: tuple[int, ...], row: list[Any]
) -> None:
    """As the runtime binds them (source: Query::init in util/sqlite.c++), by position."""
    assert inside(lambda o: list(o.ctx.storage.sql.exec(sql, *bindings).raw())) == [row]


def test_a_list_of_many_statements_and_a_text_full_of_semicolons_are_split_at_once() -> None:
    statements.cache_clear()
    begun = time.process_time()
    assert len(statements("SELECT 1;" * 10_000)) == 10_000
    assert len(statements(f"SELECT '{';' * 99_000}'")) == 1
    assert len(statements(f"SELECT '{';' * 99_000}")) == 1
    assert len(statements(f"SELECT [{';' * 99_000}")) == 1
    assert time.process_time() - begun < 3  # asking SQLite at each semicolon took a minute


@pytest.mark.parametrize(
    "pragma", ["table_info(t)", "table_list", "index_list(t)", "foreign_key_list(t)", "foreign_keys", "page_size",
               "defer_foreign_keys = ON", "foreign_key_check", "quick_check", "optimize"]
)  # fmt: skip
def test_pragmas_that_look_or_concern_one_turn_are_allowed(inside: Inside, pragma: str) -> None:
    run(inside, f"CREATE TABLE t (a); PRAGMA {pragma}")


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
