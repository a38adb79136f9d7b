"""Packages that a test needs and that a user's environment may lack."""

from __future__ import annotations

import importlib.util
import os

import pytest

__all__ = ["needs"]


def needs(*modules: str) -> None:
    """Skip the test, or the test module that calls this, if one of the modules is not installed; fail on CI."""
    missing = [module for module in modules if importlib.util.find_spec(module) is None]
    if not missing:
        return
    reason = f"requires {', '.join(missing)}; run: python3 scripts/bootstrap.py test"
    if os.environ.get("CI"):
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason, allow_module_level=True)
