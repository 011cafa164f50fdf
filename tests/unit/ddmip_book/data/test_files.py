"""Files on disk: where they are looked for, what is wrong with them, and the download."""

import hashlib
import socket
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest

from ddmip_book.data import DataError, files, load_trees, load_water, source, source_line, status
from ddmip_book.data.__main__ import main
from ddmip_book.data.tables import SPECIES, WATER_FEATURES, parse_trees, parse_water

TREE_COLUMNS = (
    "No",
    "Light_ISF",
    "Species",
    "Light_Cat",
    "Sterile",
    "Myco",
    "SoilMyco",
    "Event",
)


def water_csv(
    rows: list[list[str]], header: tuple[str, ...] = (*WATER_FEATURES, "Potability")
) -> bytes:
    return "\r\n".join(",".join(line) for line in [list(header), *rows, []]).encode()


def made_up_water(rows: int = 6) -> list[list[str]]:
    columns = np.arange(9) + 0.5
    return [[*map(str, (row + columns).tolist()), str(row % 2)] for row in range(rows)]


def made_up_trees() -> list[list[str]]:
    return [
        [str(number), "0.1", species, "Low", "Sterile", "AMF", "Sterile", str(number % 2)]
        for number, species in enumerate(SPECIES)
    ]


@pytest.fixture(autouse=True)
def empty_folders(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.delenv("DDMIP_DATA_DIR", raising=False)
    monkeypatch.setenv("DDMIP_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path


@pytest.fixture
def published(monkeypatch: pytest.MonkeyPatch) -> dict[str, bytes]:
    """Two made-up files take the place of the published ones, checksums included."""
    contents = {
        "water": water_csv(made_up_water()),
        "trees": water_csv(made_up_trees(), TREE_COLUMNS),
    }
    for key, content in contents.items():
        digest = hashlib.sha256(content).hexdigest()
        monkeypatch.setitem(files.FILES, key, replace(files.FILES[key], sha256=digest))
    return contents


def write(folder: Path, contents: dict[str, bytes]) -> None:
    folder.mkdir(exist_ok=True)
    for key, content in contents.items():
        (folder / files.FILES[key].name).write_bytes(content)


class TestParsing:
    def test_incomplete_rows_are_dropped_and_numbered(self) -> None:
        rows = made_up_water()
        rows[0][0] = rows[3][4] = rows[3][7] = ""
        features, labels, numbers = parse_water(water_csv(rows))
        assert numbers.tolist() == [1, 2, 4, 5]
        assert labels.tolist() == [1, 0, 0, 1]
        assert features[0].tolist() == [column + 1.5 for column in range(9)]

    def test_trees(self) -> None:
        features, labels, numbers = parse_trees(water_csv(made_up_trees(), TREE_COLUMNS))[
            "Quercus alba"
        ]
        assert features.tolist() == [[0.1, 1, 0, 0, 1, 0, 1]]
        assert (labels.tolist(), numbers.tolist()) == ([1], [2])


class TestSources:
    def test_folder_comes_first(
        self, published: dict[str, bytes], empty_folders: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        write(empty_folders / "mine", published)
        monkeypatch.setenv("DDMIP_DATA_DIR", str(empty_folders / "mine"))
        assert (load_water().source, len(load_water().labels)) == ("real", 6)
        assert load_trees()["Acer saccharum"].sha256 == files.FILES["trees"].sha256
        assert "published files" in source_line()
        assert status().count("verified") == 2

    def test_a_file_is_parsed_once_and_each_data_set_has_its_own_arrays(
        self, published: dict[str, bytes], empty_folders: Path
    ) -> None:
        write(empty_folders / "cache", published)
        changed = load_water()
        labels = changed.labels.tolist()
        for array in (changed.features, changed.labels, changed.row_numbers):
            array[:] = -1
        again = load_water()
        assert again.labels.tolist() == labels
        assert again.features.min() > 0
        assert again.row_numbers.tolist() == list(range(6))
        assert parse_water(published["water"]) is parse_water(published["water"])

    def test_folder_without_the_file(
        self, empty_folders: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("DDMIP_DATA_DIR", str(empty_folders))
        for load in (load_water, load_trees):
            with pytest.raises(DataError, match=r"csv does not exist, but DDMIP_DATA_DIR.*unset"):
                load()

    def test_cache_comes_second(self, published: dict[str, bytes], empty_folders: Path) -> None:
        write(empty_folders / "cache", {"water": published["water"]})
        assert (load_water().source, source("trees")) == ("real", "stand-in")
        assert source_line().startswith(
            "Data: water from the published file, trees from a synthetic stand-in"
        )

    def test_damaged_cache_is_said_and_not_used(
        self, published: dict[str, bytes], empty_folders: Path
    ) -> None:
        write(empty_folders / "cache", {"water": published["water"][:-9]})
        with pytest.warns(UserWarning, match=r"water_potability.csv is damaged.*download"):
            assert load_water().source == "stand-in"


@pytest.mark.usefixtures("published")
class TestChecksums:
    @pytest.fixture(autouse=True)
    def folder(self, empty_folders: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        monkeypatch.setenv("DDMIP_DATA_DIR", str(empty_folders))
        return empty_folders

    def refused(self, folder: Path, content: bytes) -> str:
        write(folder, {"water": content})
        with pytest.raises(DataError) as caught:
            load_water()
        message = str(caught.value)
        assert f"expected sha256 {files.FILES['water'].sha256}" in message
        assert f"found {hashlib.sha256(content).hexdigest()}" in message
        assert str(folder / "water_potability.csv") in message
        return message

    def test_truncated(self, folder: Path, published: dict[str, bytes]) -> None:
        for length in range(0, len(published["water"]), 40):
            self.refused(folder, published["water"][:length])

    def test_changed_value(self, folder: Path, published: dict[str, bytes]) -> None:
        self.refused(folder, published["water"].replace(b"3.5", b"3.6", 1))


@pytest.fixture
def server(
    published: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> Iterator[dict[str, bytes]]:
    """A local web server that serves what the returned dictionary holds, under the files' names."""
    served = {f"/{files.FILES[key].name}": content for key, content in published.items()}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            content = served.get(self.path)
            self.send_response(200 if content is not None else 404)
            self.send_header("Content-Length", str(len(content or b"")))
            self.end_headers()
            self.wfile.write(content or b"")

        def log_message(self, format: str, *arguments: object) -> None:
            return

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        for key, file in list(files.FILES.items()):
            url = f"http://127.0.0.1:{http.server_port}/{file.name}"
            monkeypatch.setitem(files.FILES, key, replace(file, url=url))
        yield served
        http.shutdown()
        thread.join()


class TestDownload:
    def test_fills_the_cache(
        self, server: dict[str, bytes], capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert main(["download"]) == 0
        assert capsys.readouterr().out.count("sha256 verified") == 2
        assert (load_water().source, source("trees")) == ("real", "real")
        assert main(["status"]) == 0
        assert capsys.readouterr().out.count("real data") == 2

    def test_wrong_content_is_not_kept(
        self, server: dict[str, bytes], empty_folders: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        server["/water_potability.csv"] = b"something else"
        assert main(["download"]) == 1
        assert "Download failed" in capsys.readouterr().err
        assert not any((empty_folders / "cache").rglob("*.csv"))
        assert load_water().source == "stand-in"

    def test_absent_page_is_a_clear_failure(
        self, server: dict[str, bytes], capsys: pytest.CaptureFixture[str]
    ) -> None:
        server.clear()
        assert main(["download"]) == 1
        assert "404" in capsys.readouterr().err

    def test_unreachable_host(
        self,
        monkeypatch: pytest.MonkeyPatch,
        empty_folders: Path,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        with socket.socket() as unused:
            unused.bind(("127.0.0.1", 0))
            url = f"http://127.0.0.1:{unused.getsockname()[1]}/water_potability.csv"
            monkeypatch.setitem(files.FILES, "water", replace(files.FILES["water"], url=url))
            assert main(["download"]) == 1
        assert "DDMIP_DATA_DIR" in capsys.readouterr().err
        assert not any((empty_folders / "cache").rglob("*"))

    def test_status_names_a_missing_file(
        self,
        monkeypatch: pytest.MonkeyPatch,
        empty_folders: Path,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        assert main(["status"]) == 0
        assert capsys.readouterr().out.count("synthetic stand-in") == 2
        monkeypatch.setenv("DDMIP_DATA_DIR", str(empty_folders))
        assert main(["status"]) == 1
        assert "does not exist" in capsys.readouterr().err


class TestLimits:
    @pytest.mark.parametrize("variable", ["DDMIP_DATA_DIR", "DDMIP_CACHE_DIR"])
    def test_a_home_folder_of_no_one_is_named(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], variable: str
    ) -> None:
        monkeypatch.delenv("DDMIP_DATA_DIR", raising=False)
        monkeypatch.setenv(variable, "~no such user/x")
        with pytest.raises(DataError, match=f"{variable}=~no such user/x.*in full"):
            load_water()
        assert main(["status"]) == 1
        assert variable in capsys.readouterr().err
