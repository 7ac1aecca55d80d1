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
#include "src/slurmctld/slurmctld.h"

/* Macros with arguments or casts, which bindgen does not evaluate. */
enum {
	TESSERA_BACKFILL_TEST = BACKFILL_TEST,
	TESSERA_GRES_ENFORCE_BIND = GRES_ENFORCE_BIND,
	TESSERA_GRES_CONF_SHARED = GRES_CONF_SHARED,
};
