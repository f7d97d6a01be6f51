"""The values of a search are limited together, those of chains among them."""

from __future__ import annotations

from typing import Any, cast

import pytest

from fhirapp.fhir.outcome import TooCostly
from fhirapp.search.query import ChainedParameter, Query
from fhirapp.search.values import Condition


def test_values_of_chains_and_of_the_type_itself_are_limited_together():
    many = Condition("1 = 1", tuple(range(20_000)))
    nothing = cast("Any", None)
    chained = ChainedParameter(lambda: [many], nothing, "", nothing, "patient.", ())
    for parts in ((many, chained), (chained, many), (chained, chained)):
        with pytest.raises(TooCostly, match=r"^patient"):
            Query(parts, chains={"patient.code": chained}).conditions()
    assert Query((many,)).conditions() == [many]
