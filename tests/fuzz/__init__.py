"""The campaign of hostile inputs: every reader of the library, thousands of damaged files, none of them a traceback.

python -m tests.fuzz                     the whole campaign (make fuzz)
python -m tests.fuzz --only npz --count 500 --seed 3
"""
