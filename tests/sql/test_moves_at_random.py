"""Random sequences of changes that give tables, partitions and their rows other ids: after each of
them every table has its rows, its indexes agree, and so it is once all that was left is emptied.

What a partition holds is asked before it goes, and the whole must be its partitions.
"""

import random

import pytest

from exuvia.base.errors import Refused
from support.few import one_in
from support.node_processes import until
from support.world import World, rows, run

STEPS = 60
NAMES = ("t0", "t1", "t2")
KEYS = ("a", "b, a")
CUTS = (
    "RANGE (a) (PARTITION p0 VALUES LESS THAN (100), PARTITION p1 VALUES LESS THAN (200),"
    " PARTITION p2 VALUES LESS THAN MAXVALUE)",
    "HASH (a) PARTITIONS 1",
)


class Moving:
    """Tables, what they should hold, and what was done to them."""

    def __init__(self, world, seed):
        self.chance = random.Random(seed)
        self.session = world.session("test")
        self.held = {}
        self.dropped = {}
        self.told = []
        self.about = ""
        self.kind = self.chance.choice(("CLUSTERED", "NONCLUSTERED"))  # so that many fit each other
        run(self.session, "SET exuvia_undo_s = 3600")
        self.keep(0)
        for name in NAMES:
            self.create(name)

    def keep(self, seconds):
        self.kept = seconds
        run(self.session, f"SET GLOBAL exuvia_drop_retention_s = {seconds}")

    def create(self, name):
        cut = self.chance.choice(("", f" PARTITION BY {self.chance.choice(CUTS)}"))
        columns = f"a INT NOT NULL, b INT NOT NULL, PRIMARY KEY (a) {self.kind}, KEY ib (b)"
        if self.did(f"CREATE TABLE {name} ({columns}){cut}"):
            self.held[name] = []

    def did(self, text):
        """Whether it was not refused."""
        try:
            run(self.session, text)
        except Refused as refusal:
            self.told.append(f"-- {refusal.code}: {text}")
            return False
        self.told.append(text)
        return True

    def of(self, name, partition=""):
        part = f" PARTITION ({partition})" if partition else ""
        return sorted(map(tuple, rows(self.session, f"SELECT a, b FROM {name}{part}")))

    def parts(self, name):
        asked = (
            "SELECT partition_name FROM information_schema.partitions WHERE table_schema = 'test'"
            f" AND table_name = '{name}' AND partition_name IS NOT NULL"
        )
        return [each[0] for each in rows(self.session, asked)]

    def step(self):
        if self.about not in self.held or self.chance.random() < 0.3:
            self.about = self.chance.choice([*self.held])
        name = self.about  # some steps about one: faults take several
        acts = [self.write, self.exchange, self.cut, self.rekey] * 3
        acts += [self.drop, self.empty] * 2
        acts += [self.delete, self.gather, self.reorganize, self.empty_part, self.drop_part]
        acts += [self.recover, self.index, self.rename, self.retention]
        self.chance.choice(acts)(name)

    def write(self, name, below=300):
        numbers = self.chance.sample(range(below), 4)
        values = [(n, self.chance.randrange(5)) for n in numbers]
        if self.did(f"INSERT INTO {name} VALUES {', '.join(map(str, values))}"):
            self.held[name] = sorted([*self.held[name], *values])

    def delete(self, name):
        share = self.chance.randrange(5)
        if self.did(f"DELETE FROM {name} WHERE b = {share}"):
            self.held[name] = [each for each in self.held[name] if each[1] != share]

    def exchange(self, name):
        others = [each for each in self.held if each != name]
        if not others:
            return
        other = self.chance.choice(others)
        if not self.parts(name):
            self.cut(name)
        if self.parts(other):
            self.gather(other)
        self.same_indexes(name, other)
        if self.chance.random() < 0.7 and self.did(f"TRUNCATE TABLE {other}"):
            self.held[other] = []  # its rows lie under its own id from here on
            self.write(other, 50)
        parts = self.parts(name)
        part = self.chance.choice((parts[0], *parts))
        inside = self.of(name, part)
        if not self.did(f"ALTER TABLE {name} EXCHANGE PARTITION {part} WITH TABLE {other}"):
            return
        outside = self.held[other]
        left = list(self.held[name])
        for each in inside:
            left.remove(each)
        self.held[name], self.held[other] = sorted([*left, *outside]), inside
        self.about = other

    def same_indexes(self, one, other):
        """As far as that can be: else the exchange is refused (1736)."""
        for name in (one, other):
            if "ig" in [each[2] for each in rows(self.session, f"SHOW INDEX FROM {name}")]:
                self.did(f"ALTER TABLE {name} DROP INDEX ig")
        keys = [rows(self.session, f"SHOW CREATE TABLE {name}")[0][1] for name in (one, other)]
        if len({each.partition("PRIMARY KEY")[2].splitlines()[0] for each in keys}) > 1:
            self.did(f"ALTER TABLE {one} DROP PRIMARY KEY, ADD PRIMARY KEY (a) CLUSTERED")
            self.did(f"ALTER TABLE {other} DROP PRIMARY KEY, ADD PRIMARY KEY (a) CLUSTERED")

    def cut(self, name):
        self.did(f"ALTER TABLE {name} PARTITION BY {self.chance.choice(CUTS)}")

    def gather(self, name):
        self.did(f"ALTER TABLE {name} REMOVE PARTITIONING")

    def reorganize(self, name):
        parts = self.parts(name)
        if len(parts) == 3:
            first, second = parts[:2]
            below = "VALUES LESS THAN"
            into = f"PARTITION {first} {below} (50), PARTITION {second} {below} (200)"
            self.did(f"ALTER TABLE {name} REORGANIZE PARTITION {first}, {second} INTO ({into})")
        else:
            self.did(f"ALTER TABLE {name} ADD PARTITION PARTITIONS 1")

    def rekey(self, name):
        key = f"ADD PRIMARY KEY ({self.chance.choice(KEYS)}) CLUSTERED"
        if self.did(f"ALTER TABLE {name} DROP PRIMARY KEY, {key}") and self.chance.random() < 0.3:
            self.undo()

    def undo(self):
        """Whether the newest job was taken back."""
        job = rows(self.session, "ADMIN SHOW DDL JOBS 1")[0][0]
        return self.did(f"ADMIN UNDO DDL JOB {job}")

    def empty(self, name):
        before = self.held[name]
        if self.did(f"TRUNCATE TABLE {name}"):
            self.held[name] = []
            if self.chance.random() < 0.5 and self.undo():
                self.held[name] = before

    def empty_part(self, name):
        self._part(name, "TRUNCATE")

    def drop_part(self, name):
        self._part(name, "DROP")

    def _part(self, name, verb):
        parts = self.parts(name)
        if parts:
            part = self.chance.choice(parts)
            inside = self.of(name, part)
            if self.did(f"ALTER TABLE {name} {verb} PARTITION {part}"):
                for each in inside:
                    self.held[name].remove(each)

    def drop(self, name):
        if self.did(f"DROP TABLE {name}"):
            held = self.held.pop(name)
            self.dropped = {name: held} if self.kept else {}
            if self.chance.random() < 0.5 or not self.held:
                self.create(self.chance.choice([n for n in NAMES if n not in self.held]))

    def recover(self, name):
        for gone, held in self.dropped.items():
            if gone not in self.held and self.did(f"RECOVER TABLE {gone}"):
                self.held[gone] = held
        self.dropped = {}

    def index(self, name):
        names = [each[2] for each in rows(self.session, f"SHOW INDEX FROM {name}")]
        extra = "DROP INDEX ig" if "ig" in names else "ADD UNIQUE INDEX ig (b, a)"
        if extra.startswith("ADD") and self.parts(name) and self.chance.random() < 0.5:
            extra += " GLOBAL"
        self.did(f"ALTER TABLE {name} {extra}")

    def rename(self, name):
        free = [each for each in NAMES if each not in self.held]
        if free and self.did(f"RENAME TABLE {name} TO {free[0]}"):
            self.held[free[0]] = self.held.pop(name)

    def retention(self, name):
        self.keep(self.chance.choice((0, 0, 600)))

    def left(self):
        return rows(self.session, "SELECT COUNT(*) FROM mysql.gc_delete_range")[0][0]

    def judge(self):
        for name, held in self.held.items():
            assert self.of(name) == held, name
            by_index = rows(self.session, f"SELECT b, a FROM {name} USE INDEX (ib) WHERE b >= 0")
            assert sorted((a, b) for b, a in by_index) == held, name
            apart = [each for part in self.parts(name) for each in self.of(name, part)]
            assert sorted(apart or held) == held, name
            run(self.session, f"ADMIN CHECK TABLE {name}")


@pytest.mark.parametrize("seed", one_in(30, range(60), first=12))
def test_each_table_keeps_its_own_rows(seed):
    with World() as world:
        moving = Moving(world, seed)
        try:
            for _ in range(STEPS):
                moving.step()
                moving.judge()
            moving.keep(0)
            looks = [-1, -2] * 5  # what TRUNCATEs left for UNDO stays
            until(lambda: looks.append(moving.left()) or len(set(looks[-10:])) == 1)
            moving.judge()
        except BaseException:
            print(*moving.told, sep=";\n")
            raise
