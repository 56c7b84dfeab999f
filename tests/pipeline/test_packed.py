"""The package sent to executors of a cluster has all files that it reads at run time."""

import zipfile
from pathlib import Path

from exuvia.pipeline import spark


def test_executors_get_every_file_that_the_package_reads(tmp_path: Path) -> None:
    package = Path(spark.__file__).resolve().parents[1]
    read = {
        str(each.relative_to(package.parent))
        for each in package.rglob("*")
        if each.is_file() and each.suffix != ".pyc" and each.name != "py.typed"
    }
    served = {each for each in read if each.startswith("exuvia/server/static/")}  # only by a front
    assert set(zipfile.ZipFile(spark.packed_for_executors(tmp_path)).namelist()) == read - served
