# Migrates a guest to another QEMU, both in TCG.
eval "export $SETTINGS"
python3 -c "$TEST"
