#!/bin/sh
#SBATCH --job-name=first
#SBATCH --output=first-%j.log
#SBATCH --time=5
#SBATCH --gpu-mem=10G
# What the job got, and what CUDA programs see of it.
echo "$TESSERA_WHY"
nvidia-smi -L
echo "CUDA_VISIBLE_DEVICES=$CUDA_VISIBLE_DEVICES"
