"""The fixtures of pages."""

from tests.support.page_fixtures import *  # noqa: F403
