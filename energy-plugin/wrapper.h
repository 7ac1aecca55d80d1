/* What bindgen reads. */
#include "config.h"
#include "slurm/slurm.h"
#include "slurm/slurm_errno.h"
#include "slurm/slurm_version.h"
#include "src/slurmd/slurmstepd/slurmstepd_job.h"

/* The step that a job's other processes are adopted by. */
enum { TESSERA_EXTERN_STEP = SLURM_EXTERN_CONT };
