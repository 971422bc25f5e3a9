"""What the builder's tools take, as JSON Schema."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from casenotes.builder.grants import PURPOSES, WORKERS


def _object(properties: Mapping[str, Any], required: Sequence[str]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(required),
        "additionalProperties": False,
    }


def _purpose(fields: Sequence[str]) -> dict[str, Any]:
    return {"type": "string", "enum": list(fields), "description": "The field that it is for."}


NO_ARGUMENTS = _object({}, ())
CHANGE = _object(
    {
        "field": {"type": "string", "description": "A field of memory; dots lead into sections."},
        "value": {"description": "The new value; null takes the field out."},
        "user_request": {
            "type": "string",
            "description": "An exact quote of a user message of this conversation that asks for the change.",
        },
    },
    ("field", "value"),
)
SET_CONFIG = _object(
    {
        "changes": {"type": "array", "items": CHANGE},
        "instructions": {"type": "string", "description": "The agent's whole instructions, if they change."},
        "instructions_request": {
            "type": "string",
            "description": "An exact quote of the user that asks for it, if there are instructions already.",
        },
    },
    (),
)
ASK_CREDENTIAL = _object(
    {
        "credential_type": {"type": "string", "description": "Such as openAiApi or anthropicApi."},
        "purpose": _purpose(PURPOSES),
    },
    ("credential_type", "purpose"),
)
RESOLVE_LLM = _object(
    {
        "model": {"type": "string", "description": "The model as the user named it."},
        "purpose": _purpose(WORKERS),
    },
    ("model", "purpose"),
)
ASK_LLM = _object({"purpose": _purpose(WORKERS)}, ("purpose",))
