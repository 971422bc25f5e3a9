r"""Classes of characters that several parts must agree on: the unseen, blanks, scripts without spaces.

Each constant is the inside of a character class for `re`. Unseen are the code points that Unicode
lets a reader ignore, interlinear annotation marks and all control characters that are no blanks.
Marks that are format characters and yet drawn, such as the Arabic number sign, are not among them.
"""

from __future__ import annotations

BLANK = "\t-\r\x1c-\x20\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
CONTROL = "\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f"
IGNORABLE = (
    "\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
UNSEEN = CONTROL + IGNORABLE
CJK = (
    "\u1100-\u115e\u1161-\u11ff\u2e80-\u2fdf\u3005\u3007\u3021-\u3029\u3031-\u3035\u3038-\u303b\u3041-\u30ff"
    "\u3131-\u3163\u3165-\u318e\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff"
    "\uff66-\uff9f\uffa1-\uffdc\U0001aff0-\U0001b16f\U00020000-\U0003ffff"
)
SOUTHEAST_ASIAN = "\u0e01-\u0eff\u1000-\u109f\u1780-\u17ff"
LESS_THAN = "<\ufe64\uff1c"
