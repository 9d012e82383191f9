"""Emulated hosts on one machine, with links of any speed, and fault injection."""
