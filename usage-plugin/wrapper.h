/* What bindgen reads. */
#include "config.h"
#include <stddef.h>
#include "slurm/slurm.h"
#include "slurm/slurm_version.h"
#include "slurm/slurmdb.h"
/* Its place from 23.02 on, and before. */
#if __has_include("src/interfaces/acct_gather.h")
#include "src/interfaces/acct_gather.h"
#else
#include "src/common/slurm_acct_gather.h"
#endif
#include "src/slurmd/slurmd/slurmd.h"

/* Where slurmd's configuration has the node's name. The whole struct has bit fields, and nothing else of it is read. */
enum { TESSERA_NODE_NAME = offsetof(slurmd_conf_t, node_name) };
