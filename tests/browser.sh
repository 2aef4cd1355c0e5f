#!/bin/sh
# Installs Chromium for the tests of the report where that takes nobody's password: as root, or in CI,
# on a system with apt. Elsewhere the tests say what is missing.
for name in "$PELLUCID_CHROMIUM" chromium chromium-browser google-chrome google-chrome-stable; do
    [ -n "$name" ] && command -v "$name" >/dev/null 2>&1 && exit 0
done
command -v apt-get >/dev/null 2>&1 || exit 0
if [ "$(id -u)" = 0 ]; then as=; elif [ -n "$CI" ]; then as="sudo -n"; else exit 0; fi
echo "Installing Chromium for the tests of the report ..."
export DEBIAN_FRONTEND=noninteractive
{ $as apt-get update -qq && $as apt-get install -y -qq --no-install-recommends chromium; } >/dev/null ||
    echo "Chromium could not be installed; the tests that need it will say so." >&2
