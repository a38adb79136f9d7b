"""Stores on file systems of several kinds: a folder, an object store in memory, one that is refused."""

from __future__ import annotations

import errno
import os
import stat
import sys
import threading
import time
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest
from pyarrow import fs

from tests.spark.receiving import identity_of_an_ended_process
from trio_stomp.spark import OptionError, SpoolError
from trio_stomp.spark.process_identity import process_identity
from trio_stomp.spark.spool_store import SpoolDamaged, SpoolLocation, SpoolStore, StoreClock


def in_memory(_folder: Path) -> SpoolStore:
    made: fs.FileSystem = vars(fs)["_MockFileSystem"]()
    made.create_dir("bucket/spool", recursive=True)
    return SpoolStore(made, "bucket/spool", "memory")


def renaming(folder: Path) -> SpoolStore:
    """As on HDFS: no object store, and not local either."""
    return SpoolStore(fs.LocalFileSystem(), str(folder), "hdfs")


def in_folder(folder: Path) -> SpoolStore:
    return SpoolLocation.of(str(folder)).open("spool")


@pytest.fixture(params=[in_folder, in_memory, renaming])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> SpoolStore:
    make: Callable[[Path], SpoolStore] = request.param
    return make(tmp_path)


def test_object_when_written_then_listed_and_read_as_it_was_last(store: SpoolStore) -> None:
    store.put("about.json", b"long ago")
    store.put("about.json", b"{}")

    assert [(each.name, each.size) for each in store.objects()] == [("about.json", 2)]
    assert store.get("about.json") == b"{}"
    with store.open_file(store.path("about.json")) as file:
        assert file.read() == b"{}"


def test_object_when_it_is_not_there_then_none_and_deleting_it_does_nothing(store: SpoolStore) -> None:
    assert store.objects() == []
    assert store.get("about.json") is None
    store.delete(["about.json"])
    with pytest.raises(SpoolError, match=r"cannot read .*about.json"):
        store.open_file(store.path("about.json"))


def test_objects_when_their_folder_appears_while_they_are_listed_then_no_error(tmp_path: Path) -> None:
    """As when two queries begin at once. Without a second look, two rounds in five fail."""
    store = SpoolLocation.of(str(tmp_path)).open()
    with ThreadPoolExecutor(1) as pool:
        for number in range(50):
            both = threading.Barrier(2)

            def make(name: str = str(number), both: threading.Barrier = both) -> None:
                both.wait()
                (tmp_path / name).mkdir()

            made = pool.submit(make)
            both.wait()
            for _ in range(6):
                assert store.objects(str(number)) == []
            made.result()


def test_json_when_written_then_read_as_it_was(store: SpoolStore) -> None:
    assert store.get_json("about.json") is None
    store.put_json("about.json", {"rows": [1, 2]})

    assert store.get_json("about.json") == {"rows": [1, 2]}


@pytest.mark.parametrize("content", [b"", b"nonsense", b'{"rows": ', b"\xff"])
def test_json_when_damaged_then_the_error_says_which_and_what_to_do(store: SpoolStore, content: bytes) -> None:
    store.put("about.json", content)

    with pytest.raises(SpoolDamaged, match=r"cannot read .*/about.json of the spool: .*; it is damaged: restore it"):
        store.get_json("about.json")


@pytest.mark.parametrize("make", [in_folder, renaming])
def test_objects_when_in_folders_then_listed_with_them_and_half_written_ones_not(
    make: Callable[[Path], SpoolStore], tmp_path: Path
) -> None:
    store = make(tmp_path)
    for name in ("a/b/c", "a/d", "e"):
        store.put(name, name.encode(), durable=False)
    Path(store.path("a/b/f.tmp")).write_bytes(b"half")

    assert sorted(each.name for each in store.objects()) == ["a/b/c", "a/d", "e"]
    assert sorted(each.name for each in store.objects("a")) == ["a/b/c", "a/d"]
    os.utime(store.path("e"), (5, 5))
    assert [each.changed for each in store.objects() if each.name == "e"] == [5.0]
    store.delete(["a/b/c", "e"])
    assert [each.name for each in store.objects()] == ["a/d"]


@pytest.mark.parametrize("make", [in_folder, renaming])
def test_folder_when_it_is_empty_then_deleted_and_otherwise_kept(
    make: Callable[[Path], SpoolStore], tmp_path: Path
) -> None:
    store = make(tmp_path)
    store.put("a/b/c", b"1")
    store.delete_empty_folder("a")
    assert store.get("a/b/c") == b"1"
    store.delete(["a/b/c"])

    for folder in ("a/b", "a", "nowhere"):
        store.delete_empty_folder(folder)

    assert store.folders() == []
    store.put("a/b/c", b"2")
    assert store.get("a/b/c") == b"2"


@pytest.mark.parametrize("write", [SpoolStore.put, SpoolStore.create])
def test_folder_when_it_was_deleted_meanwhile_then_made_again(
    tmp_path: Path, write: Callable[[SpoolStore, str, bytes], object]
) -> None:
    store = in_folder(tmp_path)
    store.put("a/b", b"")
    (tmp_path / "spool/a/b").unlink()
    (tmp_path / "spool/a").rmdir()

    with pytest.raises(SpoolError, match="is the path right, and shared with this machine"):
        write(store, "a/b", b"")
    write(store, "a/b", b"")

    assert [each.name for each in store.objects()] == ["a/b"]


@pytest.mark.parametrize(
    ("number", "advice"),
    [
        (errno.ENOSPC, "make room there, or lower maxSpoolBytes"),
        (errno.EACCES, "give this user the right to write there"),
        (errno.EROFS, "mounted read-only"),
        (errno.EIO, "check that the spool is there"),
    ],
)
def test_object_when_it_cannot_be_written_then_the_error_says_which_why_and_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, advice: str
) -> None:
    store = in_folder(tmp_path)

    def fail(_number: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", fail)

    with pytest.raises(SpoolError) as caught:
        store.put("segments/a", b"rows")
    assert f"cannot write {tmp_path}/spool/segments/a of the spool: {os.strerror(number)}; " in str(caught.value)
    assert advice in str(caught.value)


def test_spool_when_its_path_leads_through_a_file_then_said_at_once(tmp_path: Path) -> None:
    (tmp_path / "spool").write_bytes(b"")
    store = in_folder(tmp_path)

    for use in (partial(store.get, "about.json"), partial(store.put, "about.json", b"{}")):
        with pytest.raises(SpoolError, match="a part of the path is a file; choose another spoolLocation") as caught:
            use()
        assert not caught.value.may_pass


def test_object_when_folders_cannot_be_flushed_then_written_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on some volumes that look like a disk."""
    flush = os.fsync

    def fsync(number: int) -> None:
        if stat.S_ISDIR(os.fstat(number).st_mode):
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        flush(number)

    monkeypatch.setattr(os, "fsync", fsync)
    store = in_folder(tmp_path)
    store.put("segments/a", b"rows")

    assert store.create("about.json", b"{}")
    assert sorted(each.name for each in store.objects()) == ["about.json", "segments/a"]


class Flushes:
    """What was flushed to the disk, and how much of it there was at that moment."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.sizes: dict[Path, int] = {}
        self.numbers: list[int] = []
        monkeypatch.setattr(os, "fsync", self.fsync)

    def fsync(self, number: int) -> None:
        self.numbers.append(number)
        found = os.fstat(number)
        self.sizes[Path(f"/proc/self/fd/{number}").readlink()] = found.st_size

    def folders(self) -> set[Path]:
        return {each for each in self.sizes if each.is_dir()}

    def of_files(self) -> list[int]:
        """The sizes of files, which have had other names since."""
        return [size for path, size in self.sizes.items() if not path.is_dir()]


@pytest.mark.skipif(sys.platform != "linux", reason="asks Linux what an open file is")
@pytest.mark.parametrize("has_links", [True, False])
@pytest.mark.parametrize("write", [SpoolStore.put, SpoolStore.create])
def test_object_when_written_then_it_and_its_folders_would_outlive_a_power_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: Callable[[SpoolStore, str, bytes], object], has_links: bool
) -> None:
    def link(_source: str, _target: str) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    if not has_links:
        monkeypatch.setattr(os, "link", link)
    flushes, store = Flushes(monkeypatch), in_folder(tmp_path)
    write(store, "a/b/c", b"rows")

    spool = tmp_path / "spool"
    assert flushes.folders() == {tmp_path, spool, spool / "a", spool / "a/b"}
    # All of it was written before it was flushed.
    assert set(flushes.of_files()) == {4}

    # What is there already need not be flushed again.
    flushes.sizes.clear()
    write(store, "a/b/d", b"others")
    assert flushes.folders() == {spool / "a/b"}
    assert set(flushes.of_files()) == {6}
    for number in flushes.numbers:
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(number)


def test_object_when_it_need_not_outlive_a_power_cut_then_not_flushed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = in_folder(tmp_path)
    store.put("a", b"")
    flushes = Flushes(monkeypatch)

    store.put("b", b"rows", durable=False)
    store.time()

    assert flushes.sizes == {}


@pytest.mark.parametrize("make", [in_folder, renaming])
def test_object_when_replaced_while_it_is_read_then_the_reader_has_the_old_one_whole(
    make: Callable[[Path], SpoolStore], tmp_path: Path
) -> None:
    store = make(tmp_path)
    store.put("a", b"old")
    with Path(store.path("a")).open("rb") as file:
        store.put("a", b"newer")

        assert file.read() == b"old"
    assert store.get("a") == b"newer"


def test_object_when_it_exists_then_not_created_again(store: SpoolStore) -> None:
    assert store.create("about.json", b"first")
    assert not store.create("about.json", b"second")

    assert store.get("about.json") == b"first"
    assert [each.name for each in store.objects()] == ["about.json"]


@pytest.mark.parametrize("has_links", [True, False])
def test_object_when_many_create_it_at_once_then_one_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_links: bool
) -> None:
    def link(_source: str, _target: str) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    if not has_links:
        monkeypatch.setattr(os, "link", link)
    stores = [in_folder(tmp_path) for _ in range(16)]
    with ThreadPoolExecutor(8) as pool:
        created = list(pool.map(SpoolStore.create, stores, ["a"] * 16, [str(at).encode() for at in range(16)]))

    assert [stores[0].get("a")] == [str(at).encode() for at in range(16) if created[at]]
    assert list(tmp_path.rglob("*.tmp")) == []


def test_object_when_it_cannot_be_created_where_there_are_no_links_then_no_half_of_it_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would seem to be damaged for ever."""

    def full(_number: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def link(_source: str, _target: str) -> None:
        monkeypatch.setattr(os, "fsync", full)
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", link)
    store = in_folder(tmp_path)

    with pytest.raises(SpoolError, match="No space left on device; make room there"):
        store.create("about.json", b"{}")

    assert [each for each in tmp_path.rglob("*") if each.is_file()] == []


@pytest.mark.parametrize("make", [in_folder, renaming])
def test_object_when_it_cannot_be_written_then_no_half_of_it_stays(
    make: Callable[[Path], SpoolStore], tmp_path: Path
) -> None:
    """On a full disk, the halves of many attempts would take the space that the query frees."""
    store = make(tmp_path)
    # A folder is in the place of the object.
    store.put("a/b/c", b"")

    for _ in range(3):
        with pytest.raises(SpoolError, match="cannot write"):
            store.put("a/b", b"rows")

    assert list(tmp_path.rglob("*.tmp")) == []


@pytest.mark.parametrize("make", [in_folder, renaming])
def test_halves_when_their_writer_has_ended_then_removed_and_otherwise_not(
    make: Callable[[Path], SpoolStore], tmp_path: Path
) -> None:
    store = make(tmp_path)
    store.put("a/b", b"")
    ended, own = identity_of_an_ended_process(), process_identity()
    now = Path(store.path("a/b")).stat().st_mtime
    halves = {
        f"b.{ended}.12345678.tmp": now,
        f"b.{own}.12345678.tmp": now,
        "b.0123456789ab-7-9.12345678.tmp": now - 3599.5,
        "b.0123456789ab-7-9.87654321.tmp": now - 3600.5,
    }
    for name, changed in halves.items():
        half = Path(store.path(f"a/{name}"))
        half.write_bytes(b"half")
        os.utime(half, (changed, changed))

    assert store.remove_halves() == 2

    assert sorted(each.name for each in Path(store.path("a")).iterdir()) == sorted(["b", *list(halves)[1:3]])


def test_time_when_asked_then_that_of_the_store_and_nothing_stays(store: SpoolStore) -> None:
    before = {each.name for each in store.objects()}

    assert store.time() > 0
    assert {each.name for each in store.objects()} == before


def test_time_when_on_a_disk_then_that_of_its_machine(tmp_path: Path) -> None:
    store, before = in_folder(tmp_path), time.time()

    # The time of a file may be that of the last tick of the kernel.
    assert before - 0.1 < store.time() < time.time() + 0.1


def test_halves_when_on_an_object_store_then_there_are_none(tmp_path: Path) -> None:
    store = in_memory(tmp_path)
    store.put("a.tmp", b"1")

    assert store.remove_halves() == 0
    assert store.get("a.tmp") == b"1"


def test_clock_when_the_machine_counts_on_then_the_time_of_the_store_does(tmp_path: Path) -> None:
    store, now = in_folder(tmp_path), [50.0]
    clock = StoreClock(store, lambda: now[0])
    begun = clock()
    now[0] += 7

    assert clock() == begun + 7


@pytest.mark.parametrize(
    ("uri", "path"),
    [
        ("/data/spool", "/data/spool"),
        ("file:///data/spool", "/data/spool"),
        ("file://localhost/data/spool", "/data/spool"),
        ("file:/data/spool", "/data/spool"),
        ("//data/spool", "//data/spool"),
    ],
)
def test_location_when_local_then_the_same_folder_however_it_is_written(uri: str, path: str) -> None:
    location = SpoolLocation.of(uri)

    assert (location.uri, location.is_local) == (path, True)
    assert location.open("a", "b").path("c") == f"{path}/a/b/c"


def test_location_when_remote_then_kept_as_it_is_and_its_settings_are_not_shown() -> None:
    location = SpoolLocation.of("s3://bucket/spool", [("secret_key", "hunter2")])

    assert (location.uri, location.is_local) == ("s3://bucket/spool", False)
    assert "hunter2" not in repr(location)


@pytest.mark.parametrize(
    ("uri", "said"),
    [
        ("spool", "must be an absolute path"),
        ("bucket/spool?secret_key=hunter2", "must be an absolute path, .*, got 'bucket/spool'"),
        ("file:spool", "must be an absolute path"),
        ("file://data/spool", "must be an absolute path"),
        ("s3://key:hunter2@bucket/spool", "holds a key; give it in the environment"),
        ("abfss://container:hunter2@account.dfs.core.windows.net/spool", "holds a key"),
        ("s3://[bucket", "cannot be read"),
        ("s3://?secret_key=hunter2", "must name a bucket, such as s3://bucket/spool, got 's3://'"),
        (
            "dbfs:/spool",
            "must be a path on Databricks, such as /Volumes/catalog/schema/volume/spool, got 'dbfs:",
        ),
        ("dbfs:/spool?token=hunter2", "must be a path on Databricks, .*, got 'dbfs:/spool'"),
        ("gs:bucket/spool", "must name a bucket, such as gs://bucket/spool, got 'gs:bucket/spool'"),
        (
            "gs2://bucket/spool?key=hunter2",
            "has the unknown scheme 'gs2', got 'gs2://bucket/spool'; expected an absolute",
        ),
    ],
)
def test_location_when_it_is_none_then_refused_without_showing_a_key(uri: str, said: str) -> None:
    with pytest.raises(OptionError, match=said) as caught:
        SpoolLocation.of(uri)
    assert "hunter2" not in str(caught.value)


@pytest.mark.skipif(not hasattr(fs, "AzureFileSystem"), reason="this pyarrow was built without Azure")
@pytest.mark.parametrize(
    ("uri", "settings"),
    [
        ("abfss://container@account.dfs.core.windows.net/spool", {}),
        ("abfs://container@account.dfs.core.windows.net/spool", {"account_name": "account"}),
        ("abfs://container/spool", {"account_name": "account"}),
    ],
)
def test_location_when_on_azure_then_the_container_comes_first_however_it_is_written(
    uri: str, settings: dict[str, str]
) -> None:
    assert SpoolLocation.of(uri, settings.items()).open("a").path("b") == "container/spool/a/b"


@pytest.mark.parametrize("uri", ["/data/spool", "file:///data/spool"])
def test_location_when_local_and_it_has_settings_then_refused_without_showing_a_key(uri: str) -> None:
    with pytest.raises(OptionError) as caught:
        SpoolLocation.of(uri, [("access_key", "hunter1"), ("secret_key", "hunter2")])

    assert str(caught.value) == (
        "the option 'spoolOptions' has 'access_key', 'secret_key', but 'spoolLocation' is the local path "
        "'/data/spool', whose file system has no arguments; leave out 'spoolOptions', or give a URI such as "
        "s3://bucket/spool"
    )


@pytest.mark.parametrize(
    ("uri", "settings", "reason"),
    [
        ("s3://bucket/a?secret_key=hunter2", {}, "'secret_key'"),
        ("s3://buck et/a?secret_key=hunter2", {}, "at character ' '"),
        # Where the URI ends, by its own rules.
        ("s3://buck et/a?secret_key=#hunter2", {}, "at character ' '"),
        ("s3://buck et/#?secret_key=hunter2", {}, "at character ' '"),
        ("s3://bucket/a", {"proxy_options": "://ann:hunter2@proxy"}, "'...'"),
        ("s3://bucket/a", {"request_timeout": "soon"}, "'request_timeout' must be a number of seconds, got 'soon'"),
        (
            "s3://bucket/a?connect_timeout=true",
            {"region": "eu-west-1"},
            "'connect_timeout' must be a number of seconds",
        ),
        ("s3://bucket/a?nonsense=hunter2", {"region": "eu-west-1"}, "'nonsense'"),
        ("s3://bucket/a", {"secret_kei": "hunter2", "region": "eu-west-1"}, "'secret_kei'"),
        ("hdfs://host:8020/a", {"user": "hunter2"}, "run: pip install fsspec"),
    ],
)
def test_location_when_its_file_system_cannot_be_opened_then_the_error_says_what_to_check_and_shows_no_key(
    uri: str, settings: dict[str, str], reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "fsspec", None)
    location = SpoolLocation.of(uri, settings.items())

    with pytest.raises(SpoolError, match=r"cannot open the spool .*; check spoolLocation") as caught:
        location.open()
    assert reason in str(caught.value)
    assert "hunter2" not in location.shown + "".join(traceback.format_exception(caught.value))


@pytest.mark.skipif(not hasattr(fs, "S3FileSystem"), reason="this pyarrow was built without S3")
def test_location_when_a_setting_is_a_flag_or_a_number_then_it_has_its_type() -> None:
    settings = {"anonymous": "false", "access_key": "key", "secret_key": "hunter2", "request_timeout": "3"}

    # PyArrow takes any text for true, and refuses to be anonymous with keys.
    location = SpoolLocation.of("s3://bucket/spool?region=eu-west-1", settings.items())
    assert location.open("a").path("b") == "bucket/spool/a/b"
