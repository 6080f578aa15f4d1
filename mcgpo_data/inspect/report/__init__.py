"""`mcgpo report`: a build on one page of HTML.

Each module here turns a store or its pairs into plain numbers; `content` puts them together, `figures` draws them, and
`templates/report.html` is the page.
"""
