"""Hosts on one machine, with links of any speed, and faults on them."""
