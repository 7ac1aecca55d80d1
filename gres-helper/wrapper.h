/* What bindgen reads. */
#include "config.h"
#include "slurm/slurm.h"
#include "slurm/slurm_errno.h"
#include "slurm/slurm_version.h"
#include "src/common/assoc_mgr.h"
#include "src/common/read_config.h"
#include "src/common/run_in_daemon.h"
#include "src/slurmctld/slurmctld.h"

/* From 25.05 a plugin asks by this bit whether it is in slurmctld. */
#ifdef IS_SLURMCTLD
enum { TESSERA_IS_SLURMCTLD = IS_SLURMCTLD };
#else
enum { TESSERA_IS_SLURMCTLD = 0 };
#endif

/* What slurmctld itself notes in a change of a job when it is to lose licenses. Clients' bits come through. */
#ifdef RESET_LIC_TASK
static const uint64_t TESSERA_RESET_LICENSES = RESET_LIC_JOB | RESET_LIC_TASK;
#else
static const uint64_t TESSERA_RESET_LICENSES = 0;
#endif

/* A value of an unnamed enum. */
enum {
	TESSERA_INVALID_GRES = ESLURM_INVALID_GRES,
};
