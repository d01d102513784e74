"""`parallel: auto`: explicit candidates, judged by the same rules as any recipe, ordered by the estimate of time.

bounds -> candidates -> judge -> rank -> decisions, or the smallest change that makes one fit
"""
