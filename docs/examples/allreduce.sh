#!/bin/sh
#GSUB --job-name=allreduce --nodes=2 --ntasks-per-node=8 --gpus-per-node=8
#GSUB --time=5 --output=allreduce-%j.out
# This script runs on the first node; grun starts the 16 ranks on both.
echo "nodes $SLURM_JOB_NODELIST, rendezvous at $MASTER_ADDR:$MASTER_PORT"
grun python3 "${1:-allreduce.py}"
