"""Text without case and accents, as search and the comparison of names need it."""

from __future__ import annotations

import unicodedata
from functools import lru_cache

# Longer texts are not remembered.
_LONGEST = 200
# Letters whose stroke, hook or missing dot Unicode does not take apart as it does accents, and
# letters that are two: as CLDR's Latin-ASCII writes them. Small ones, after ß has become ss.
_PLAIN = str.maketrans(
    "øđħłŧƀƃƈƌƒƙƚƞƥƫƭƴƶǥȡȥȴȵȶȷȼȿɀɇɉɋɍɏɓɕɖɗɟɠɦɨɫɬɭɱɲɳɼɽɾʂʄʈʉʋʐʑʝʠⱡⱥⱦⱨⱪⱬⱱⱳⱴⱸⱺðŋɛɔɵ",
    "odhltbbcdfklnpttyzgdzlntjcszejqrybcddjghilllmnnrrrsjtuvzzjqlathkzvwveodneoo",
) | {ord("æ"): "ae", ord("œ"): "oe", ord("þ"): "th", 0x131: "i"}


def fold(text: str) -> str:
    """Return text without case, accents and superfluous space: "José  Søren" is "jose soren".

    FHIR R4 search §3.1.1.4.8: insensitive to casing, accents and other diacritical marks. In
    Turkish the small letter of I has no dot, and that of İ has one, so a dot does not count.
    """
    # Most short ones come again, and are remembered.
    return _fold(text) if len(text) <= _LONGEST else _fold.__wrapped__(text)


@lru_cache(maxsize=10_000)
def _fold(text: str) -> str:
    if not text.isascii():
        # Without what is combined first: to put long rows of accents in order takes very long.
        text = _bare(unicodedata.normalize("NFKD", _bare(text.casefold())))
        text = text.casefold().translate(_PLAIN)
    return " ".join(text.casefold().split())


def _bare(text: str) -> str:
    """Return text without combining characters."""
    return "".join(letter for letter in text if not unicodedata.combining(letter))
