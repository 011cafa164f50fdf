"""Where things are, for tests that read the project."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
NETWORKS = ROOT / "data" / "networks"
