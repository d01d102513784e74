"""`report.html`: the plan as drawings, in one file without scripts that needs no network."""
