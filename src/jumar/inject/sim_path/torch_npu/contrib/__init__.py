"""Extras of the plug-in: modules and functions in forms that suit the chip, and `transfer_to_npu`."""
