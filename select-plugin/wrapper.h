/* What bindgen reads. The headers moved between Slurm versions; whichever is there is taken. */
#include "config.h"
#include "slurm/slurm.h"
#include "slurm/slurm_errno.h"
#include "slurm/slurm_version.h"
#if __has_include("src/interfaces/gres.h")
#include "src/interfaces/gres.h"
#include "src/interfaces/select.h"
#else
#include "src/common/gres.h"
#include "src/common/select.h"
#endif
#include "src/common/job_resources.h"
#include "src/common/node_conf.h"
#include "src/common/read_config.h"
#include "src/common/run_in_daemon.h"
#include "src/slurmctld/slurmctld.h"

/* From 25.05 a plugin asks by this bit whether it is in slurmctld. */
#ifdef IS_SLURMCTLD
enum { TESSERA_IS_SLURMCTLD = IS_SLURMCTLD };
#else
enum { TESSERA_IS_SLURMCTLD = 0 };
#endif

/* Macros with arguments or casts, which bindgen does not evaluate. */
enum {
	TESSERA_BACKFILL_TEST = BACKFILL_TEST,
	TESSERA_JOB_COMPLETING = JOB_COMPLETING,
	TESSERA_GRES_ENFORCE_BIND = GRES_ENFORCE_BIND,
	TESSERA_GRES_CONF_SHARED = GRES_CONF_SHARED,
	TESSERA_PARTITION_LLN = PART_FLAG_LLN,
#ifdef CR_LLN
	TESSERA_LLN = CR_LLN,
#else
	TESSERA_LLN = SELECT_LLN,
#endif
};
