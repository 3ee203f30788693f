"""The dialects: each a folder with the same few doors, and no other module knows one of them by name.

    render.py        a request to the requests for the engine (and how many tokens a prompt has)
    derender.py      what an engine answered to the answer, whole or chunk by chunk
    relay.py         a request for the relay, its stream written, its answer written

``core.dialects.dialect`` says what a door takes and gives. A door is imported
when it is first wanted: a function that renders never loads what derenders,
and no function a dialect that nobody speaks to it.
"""

from core.dialects.chat import CHAT
from core.dialects.completions import COMPLETIONS
from core.dialects.dialect import Dialect
from core.dialects.messages import MESSAGES
from core.dialects.responses import RESPONSES

DIALECTS: tuple[Dialect, ...] = (CHAT, COMPLETIONS, MESSAGES, RESPONSES)
