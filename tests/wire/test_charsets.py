"""A client that speaks gbk, gb18030 or latin2: its statements, parameters and answers are in it."""

import pymysql
import pytest

from support.node_processes import NodeProcess


@pytest.mark.parametrize("charset", ["gbk", "gb18030"])
def test_a_client_of_a_charset(node: NodeProcess, charset: str) -> None:
    texts = ["\u4e2d\u6587", "\u4e00", "a", "\u7e17'"]  # of the last one byte is a backslash's
    with node.connect("test", autocommit=True, charset=charset) as client:
        cursor = client.cursor()
        cursor.execute(f"DROP TABLE IF EXISTS {charset}_t")
        cursor.execute(
            f"CREATE TABLE {charset}_t (id INT PRIMARY KEY, a VARCHAR(9)) CHARSET {charset}"
        )
        for n, text in enumerate(texts):
            cursor.execute(f"INSERT INTO {charset}_t VALUES (%s, %s)", (n, text))
        cursor.execute(
            f"SELECT a, LENGTH(a), LENGTH(%s) AS own FROM {charset}_t ORDER BY id", texts[:1]
        )
        lengths = [len(text.encode(charset)) for text in texts]
        assert list(cursor.fetchall()) == [
            (text, size, lengths[0]) for text, size in zip(texts, lengths, strict=True)
        ]
        cursor.execute(f"SELECT id FROM {charset}_t WHERE a = '\u7e17\\''")
        assert cursor.fetchall() == ((3,),)
        cursor.execute("SELECT @@character_set_client, @@collation_connection")
        assert cursor.fetchall() == ((charset, f"{charset}_bin"),)
        if charset == "gbk":
            with pytest.raises(pymysql.Error):
                client.cursor().execute("INSERT INTO gbk_t VALUES (9, x'FFFF')")
    with node.connect("test", autocommit=True) as client:
        cursor = client.cursor()
        cursor.execute(f"SELECT a FROM {charset}_t ORDER BY a")
        expected = sorted(texts, key=lambda text: text.encode(charset))
        assert [row[0] for row in cursor.fetchall()] == expected


def test_a_client_of_latin2(node: NodeProcess) -> None:
    with node.connect("test", autocommit=True) as client:
        cursor = client.cursor()
        cursor.execute("SET exuvia_compatibility = 'mysql'")
        client.set_character_set("latin2")
        cursor.execute("CREATE TABLE l2 (a VARCHAR(9) CHARSET latin2, b VARCHAR(9))")
        cursor.execute("INSERT INTO l2 VALUES (%s, %s)", ("Łódź", "Łódź"))
        cursor.execute(
            "SELECT a, b, LENGTH(a), LENGTH(b), CHARSET('x') FROM l2 WHERE a = %s",
            ("łódŹ",),
        )
        assert cursor.fetchall() == (("Łódź", "Łódź", 4, 7, "latin2"),)
