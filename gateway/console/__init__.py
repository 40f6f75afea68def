"""The console under ``/console``: runs, approvals, playground, catalogue and operations, as pages for a browser.

Pages are made on the server by the same service functions as the API's answers, as the principal of the session. What
scripts add (live updates, keys, palette) is optional: every action is a link or a form.

Layers: ``routes`` over the screens, those over ``views`` (what templates are given), ``forms`` and ``pages``, and
``session`` at the bottom.
"""
