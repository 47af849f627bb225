"""How reports are shown: tables as text, Markdown, HTML and on a terminal; figures with their units.

Nothing of it is imported by ``import jitgrad``.
"""
