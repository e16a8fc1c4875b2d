"""How Markdown, as language models write it, looks on each platform.

`parse` reads Markdown into the blocks of `tree`; `telegram` and `discord` render them and split what is too long;
`plain` is the text without any markup. Everything here is a pure function and knows no platform library.
"""

from channels.text.plain import plain

__all__ = ["plain"]
