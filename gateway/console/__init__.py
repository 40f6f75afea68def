"""The console under ``/console``: runs, approvals, playground, catalogue and operations, as pages for a browser.

Pages are rendered on the server. They call the same service functions as the API, as the principal of the session. What
scripts add (live updates, keys, palette) is optional: every action is a link or a form.

Layers, from top to bottom: ``routes``; the screens; what templates are given, ``forms`` and ``pages``; ``session``.
"""
