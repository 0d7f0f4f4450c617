#!/bin/bash
# Installs the SDKs of the three storages, by which check.py holds rules of retention against what
# the storages take: botocore 1.44.8, google-cloud-storage 3.17.1 and azure-mgmt-storage 25.3.0
# (Apache-2.0, Apache-2.0, MIT), from the Python index, into target/judges (107 MB).
. "$(dirname "$(readlink -f "$0")")/../install.sh"
python lifecycle botocore==1.44.8 google-cloud-storage==3.17.1 azure-mgmt-storage==25.3.0
