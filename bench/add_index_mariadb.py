"""MariaDB on this machine as the peer of bench/add_index.py: a private server on a free loopback
port."""

import getpass
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow
import pymysql
from pyarrow import csv

START_S = 60.0


class Peer:
    """A server with an empty data folder, alive only while something is measured."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._data = folder / "data"
        self._rows = folder / "rows.csv"
        with socket.socket() as chosen:
            chosen.bind(("127.0.0.1", 0))
            self._port = chosen.getsockname()[1]

    def add_index_s(self, batches: Iterator[pyarrow.RecordBatch]) -> float:
        """Load the rows and add the index. Unit: s."""
        return self.statement_s(batches, "ALTER TABLE sbtest1 ADD INDEX k_1 (k)")

    def statement_s(self, batches: Iterator[pyarrow.RecordBatch], *statements: str) -> float:
        """Load the rows and run statements; what the last one takes. Unit: s."""
        self._folder.mkdir(parents=True)
        self._install()
        server = self._start()
        try:
            connection = self._connect(server)
            with connection, connection.cursor() as cursor:
                self._load(cursor, batches)
                for statement in statements[:-1]:
                    cursor.execute(statement)
                began = time.perf_counter()
                cursor.execute(statements[-1])
                return time.perf_counter() - began
        finally:
            server.terminate()
            server.wait(START_S)

    def _install(self) -> None:
        subprocess.run(
            [
                "mariadb-install-db",
                "--no-defaults",
                f"--datadir={self._data}",
                f"--user={getpass.getuser()}",
                "--auth-root-authentication-method=normal",
                "--skip-test-db",
            ],
            check=True,
            capture_output=True,
        )

    def _start(self) -> "subprocess.Popen[bytes]":
        program = shutil.which("mariadbd") or "/usr/sbin/mariadbd"
        return subprocess.Popen(
            [
                program,
                "--no-defaults",
                f"--datadir={self._data}",
                f"--user={getpass.getuser()}",
                f"--port={self._port}",
                "--bind-address=127.0.0.1",
                f"--socket={self._folder / 'socket'}",
                "--innodb-buffer-pool-size=2G",
                "--local-infile=1",
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def _connect(self, server: "subprocess.Popen[bytes]") -> Any:
        end = time.monotonic() + START_S
        while True:
            try:
                return pymysql.connect(
                    host="127.0.0.1", port=self._port, user="root", local_infile=True
                )
            except pymysql.OperationalError:
                if time.monotonic() > end or server.poll() is not None:
                    raise
                time.sleep(0.2)

    def _load(self, cursor: Any, batches: Iterator[pyarrow.RecordBatch]) -> None:
        cursor.execute("CREATE DATABASE sbtest")
        cursor.execute("USE sbtest")
        cursor.execute(
            "CREATE TABLE sbtest1 (id int NOT NULL PRIMARY KEY, k int NOT NULL DEFAULT 0, "
            "c char(120) NOT NULL DEFAULT '', pad char(60) NOT NULL DEFAULT '') ENGINE=InnoDB"
        )
        options = csv.WriteOptions(include_header=False)
        for batch in batches:
            csv.write_csv(batch, str(self._rows), options)
            cursor.execute(
                f"LOAD DATA LOCAL INFILE '{self._rows}' INTO TABLE sbtest1 "
                "FIELDS TERMINATED BY ',' ENCLOSED BY '\"'"
            )
            cursor.connection.commit()
