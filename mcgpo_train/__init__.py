"""Training on the tables that `mcgpo_data` writes. Needs the extra `train`; `mcgpo_data` never imports this
package.
"""
