/* What bindgen reads. */
#include "config.h"
#include "slurm/slurm.h"
#include "slurm/slurm_errno.h"
#include "slurm/slurm_version.h"
#include "src/common/assoc_mgr.h"
#include "src/common/read_config.h"
#include "src/slurmctld/slurmctld.h"

/* A value of an unnamed enum. */
enum {
	TESSERA_INVALID_GRES = ESLURM_INVALID_GRES,
};
