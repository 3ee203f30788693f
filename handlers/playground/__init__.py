"""A page that shows how an answer is split: `derender serve --playground`. Never part of a Lambda function.

endpoints.py    its routes: the page, what there is to choose, and what core says (core.explain)
page.html, page.css, page.js    the page: no build step, nothing from elsewhere
examples.json   recorded outputs, by the family of their model
"""
