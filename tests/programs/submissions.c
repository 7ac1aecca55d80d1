/* Fills Slurm's job description from a seed and submits it through the public library, as any user can.
 *
 *   submissions fuzz SEED FIRST COUNT   submissions FIRST to FIRST + COUNT - 1 of this seed: every field that a user fills. Each 41st
 *                                       is a heterogeneous job
 *   submissions stock SEED FIRST COUNT  the same without what ends a slurmctld that has no Tessera (see `mailed`)
 *   submissions fat SEED FIRST COUNT    plain jobs whose environments alone are too many, too long, or both
 *
 * A submission depends on the seed and its own number only. At most 64 jobs are kept: the oldest is cancelled before one more
 * is, and all of them in the end. Prints a line per reason of refusal, and one line of sums. Exit codes: 0, 2 for wrong
 * arguments, 3 if slurmctld does not answer any more. */
#include <slurm/slurm.h>
#include <slurm/slurm_errno.h>
#include <slurm/slurm_version.h>

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// A message names its job in the id of a step from 25.11 on.
#if SLURM_VERSION_NUMBER < SLURM_VERSION_NUM(25, 11, 0)
#define JOB_ID(message) ((message)->job_id)
#else
#define JOB_ID(message) ((message)->step_id.job_id)
#endif

enum { KEPT = 64, PIECES = 400000, REASONS = 64, SECONDS = 580 };
/* A heterogeneous job each so many submissions, and its components: sbatch itself makes at most 128. */
enum { HETEROGENEOUS = 41, COMPONENTS = 130 };
enum { FAT_ENTRIES = 70000, FAT_BYTES = 8 << 20, LONG_BYTES = 70000 };

/* slurmstepd copies a task's environment before the task runs, in a time that grows with the square of its names, and no signal
 * ends the copy (src/slurmd/slurmstepd/task.c: exec_task, env_array_copy). On a busy machine 70,000 names take over a minute; if
 * such a job is cancelled then, stock slurmd drains the node too ("Kill task failed"). Many names stay far below that. */
enum { MANY_NAMES = 1000 };

/* Memory of the present submission, freed before the next. */
static void *pieces[PIECES];
static size_t piece_count;

static void *piece(size_t bytes) {
    void *memory = calloc(1, bytes);
    if (!memory || piece_count == PIECES)
        abort();
    return pieces[piece_count++] = memory;
}

static void free_pieces(void) {
    while (piece_count)
        free(pieces[--piece_count]);
}

/* SplitMix64. */
static uint64_t state;

static uint64_t draw(void) {
    uint64_t z = state += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
}

static uint64_t below(uint64_t limit) { return draw() % limit; }
static bool percent(unsigned n) { return below(100) < n; }

#define ONE_OF(pool) ((pool)[below(sizeof(pool) / sizeof *(pool))])

static const char *const tres[] = {
    "gres:gpu:1", "gres:gpu:a100:2", "gres/gpu:1", "gpu:1", "gpu", "gres:shard:10", "gres/shard:a100:4", "shard:10", "gres:gpu:0",
    "gres:gpu:-1", "gres:gpu:99999999999999999999", "gres:shard:4294967295", "gres:gpu:1,gres:shard:1", "gres:gpu:1,gres:gpu:2",
    "gres::", "gres:gpu::", "gres:gpu:h100:1", "gres:none", "gres:mps:50", "billing=1", "cpu=1", "gres:gpu:a100:1,gres:gpu:h100:1",
    "gres/gpu", "gres:", ":", ",", "gres:gpu:1k", "gres:shard:1M", "gres:shard:a100:40,gres:shard:h100:80"};
static const char *const binds[] = {"gres:gpu:single:1", "gres:gpu:closest", "gpu:map_gpu:0,1,2,9", "gres:gpu:none", "gpu:mask_gpu:0xff", "verbose"};
static const char *const freqs[] = {"gpu:low", "gpu:1000,memory=high", "gpu:=", "gpu:99999999999"};
static const char *const features[] = {"a100", "a&b", "[a*2&b*3]", "a|b", "((a))", "a*99999999", "[", "&"};
static const char *const depends[] = {"afterok:1", "singleton", "after:1+5", "afterany:4294967295", "afterok:1?afternotok:2", "expand:1", ":", "afterok:"};
static const char *const arrays[] = {"0-3", "0", "1-10%2", "0-999", "0-99999999", "5,5,5", "-1", "1-0", "0-10:3", "%", "1000"};
static const char *const hosts[] = {"n1", "n2", "n[1-2]", "n[1-99999]", "n1,n1", "nowhere", "n[", "", "n1:2"};
static const char *const licences[] = {"a", "a:1", "tessera", "tessera_slices:7", "a@b:3", "a:99999999999", "a,b|c", ":", "a:-1"};
static const char *const names[] = {
    "job", "", "..", "a b", "\xff\xfe", "%n%s%d", "'; touch /tmp/x; '", "\n\t", "$(id)", "v1 job=1;n1=mig:0/7g.40gb@0", "tessera"};
static const char *const places[] = {"gpu", "gpu", "nowhere", "gpu,nowhere", "gpu,gpu", ""};
static const char *const odd_paths[] = {"/", "", "/nonexistent/x", "/dev/null", "/dev/full"};
static const char *const marks[] = {
    "TESSERA_REQUEST=v1 iso=mig typed=1 mem=9537", "TESSERA_REQUEST=v1 iso=mig typed=1 mem=4000 inst=2",
    "TESSERA_REQUEST=v1 iso=mps typed=1 mem=2862 threads=25", "TESSERA_REQUEST=v1 iso=auto mem=4769",
    "TESSERA_REQUEST=v1 iso=mig:1g.5gb typed=1", "TESSERA_REQUEST=v1 iso=mig:4c.7g.40gb typed=1 mem=9537",
    "TESSERA_REQUEST=v1 iso=whole pattern=ring", "TESSERA_REQUEST=v1 iso=whole pattern=edges:0-1,1-2 wait=25:1200 cap=200",
    "TESSERA_REQUEST=v1 iso=auto mem=9537 inst=4294967295", "TESSERA_REQUEST=v1 iso=mig typed=1 mem=18446744073709551615",
    "TESSERA_REQUEST=v9", "TESSERA_REQUEST=", "TESSERA_REQUEST=v1 iso=mig mem=1 iso=mps mem=2", "TESSERA_WHY=\x1b[2J", "TESSERA_MATCH=1",
    "TESSERA_PLACEMENT=v1 job=1;n1=mig:0/7g.40gb@0", "TESSERA_PLACEMENT=v1 job=2;n1=gpu:0,1,2,3", "TESSERA_PLACEMENT=",
    "TESSERA_PLACEMENT=v1 job=99999;n9=mig:99/9g.99gb@99", "TESSERA_ISOLATION=mig", "TESSERA_GPU_MEM=4G", "TESSERA_GPU_ISOLATION=mps",
    "SPANK_TESSERA_REQUEST=v1 iso=mig mem=9537", "SPANK_TESSERA_PLACEMENT=v1 job=1;n2=gpu:0", "SLURM_SPANK__SLURM_SPANK_OPTION_tessera_gpu_mem=4G",
    "_SLURM_SPANK_OPTION_tessera_gpu_isolation=mig", "CUDA_VISIBLE_DEVICES=0,1,2,3,4,5,6,7", "SLURM_JOB_GPUS=0-7", "CUDA_MPS_PIPE_DIRECTORY=/tmp",
    "LD_PRELOAD=/nonexistent.so", "A=1", "=", "A", "=A", "A=%s%n", "PATH=/usr/bin:/bin"};

static char *filler(size_t length, bool printable) {
    char *text = piece(length + 1);
    for (size_t i = 0; i < length; i++)
        text[i] = (char)(printable ? 'a' + below(26) : 1 + below(255));
    return text;
}

/* A text as given, cut, doubled, with one byte changed, or another one that nobody expects. */
static char *twist(const char *given) {
    size_t length = strlen(given);
    char *text = piece(2 * length + 2);
    memcpy(text, given, length);
    unsigned how = (unsigned)below(100);
    if (how < 75)
        return text;
    if (how < 80 && length)
        text[below(length)] = 0;
    else if (how < 85)
        memcpy(text + length, given, length);
    else if (how < 92 && length)
        text[below(length)] = (char)(1 + below(255));
    else if (how < 95)
        return filler(below(300), false);
    else if (how < 96)
        return filler(below(LONG_BYTES), true);
    return text;
}

static uint64_t odd(void) {
    static const uint64_t numbers[] = {0, 1, 2, 3, 7, 8, 9, 64, 255, 256, 0x7fff, 0xfffe, 0xffff, 0x10000, 0x7fffffff, 0x80000000, 0xfffffffd,
                                       0xfffffffe, 0xffffffff, 0x100000000, 0x7fffffffffffffff, 0xfffffffffffffffe, UINT64_MAX};
    return percent(80) ? ONE_OF(numbers) : draw();
}

/* slurmctld refuses a message whose environments have an entry that is no text, so few have one. */
static bool rarely(void) { return below(1000) == 0; }

static char *numbered(uint32_t i) {
    char *text = piece(24);
    snprintf(text, 24, "N%u=1", i);
    return text;
}

/* Whether a text is NAME=VALUE, and none of the first `n` entries has its name. */
static bool has_own_name(char *const *list, uint32_t n, const char *text) {
    const char *sign = strchr(text, '=');
    for (uint32_t i = 0; sign && i < n; i++)
        if (list[i] && !strncmp(list[i], text, (size_t)(sign - text) + 1))
            return false;
    return sign && sign != text;
}

/* An environment of 1 to 12 entries; a fat one is bounded by FAT_ENTRIES and FAT_BYTES. Tessera refuses a job whose SPANK
 * variables are not NAME=VALUE with one entry per name, so most environments are tidy in this. */
static char **entries(uint32_t *count, bool fat, bool with_null) {
    static const uint32_t many[] = {100, 127, 128, 129, 200, 1000, 65535, 65536, FAT_ENTRIES};
    static const size_t wide[] = {10, 100, 1000, 16383, 16384, 16385, 65536, 131071, 131072, 140000, 1000000};
    uint32_t n = fat && percent(60) ? ONE_OF(many) : 1 + (uint32_t)below(12);
    size_t bytes = fat ? ONE_OF(wide) : 0, sum = 0;
    bool tidy = percent(85);
    char **list = piece((n + 1) * sizeof *list);
    char *same = bytes ? filler(bytes, true) : NULL;
    for (uint32_t i = 0; i < n; i++) {
        if (same && sum + bytes < FAT_BYTES) {
            list[i] = same;
            sum += bytes;
        } else if (n > 12) {
            list[i] = tidy && n <= MANY_NAMES ? numbered(i) : "N=1";
        } else if (with_null && rarely()) {
            list[i] = NULL;
        } else {
            list[i] = twist(ONE_OF(marks));
            if (tidy && !has_own_name(list, i, list[i]))
                list[i] = numbered(i);
        }
    }
    if (same)
        memcpy(same, "FAT=", bytes < 4 ? bytes : 4);
    *count = n;
    return list;
}

/* Where it was started: what a job leaves stays there. */
static char directory[4096];

static void plain(job_desc_msg_t *job) {
    static char *const script[] = {"#!/bin/sh\nexit 0\n", "#!/bin/sh\nsleep 1\n", "#!/bin/sh\nsleep 3\n", "#!/bin/sh\nnvidia-smi -L\n"};
    slurm_init_job_desc_msg(job);
    job->user_id = getuid();
    job->group_id = getgid();
    job->name = "fuzz";
    job->work_dir = directory;
    job->std_out = job->std_err = job->std_in = "/dev/null";
    job->script = ONE_OF(script);
    job->environment = piece(2 * sizeof(char *));
    job->environment[0] = "PATH=/usr/bin:/bin";
    job->env_size = 1;
    job->min_nodes = 1;
    job->time_limit = 5;
}

/* Whether jobs ask for mail. If a job has two SPANK variables of one name, or one without '=', a slurmctld that sends mail
 * reads beyond an array of its own (src/slurmctld/job_mgr.c: job_common_env_vars). Tessera's job submit plugin refuses such a
 * job. Without the plugin nobody does. */
static bool mailed;

/* Leaves out values with which a user ends a slurmctld that has no Tessera (docs/slurm-quirks.md): its job submit plugin refuses
 * such jobs. */
static void spare_slurmctld(job_desc_msg_t *job) {
#if SLURM_VERSION_NUMBER < SLURM_VERSION_NUM(23, 2, 0)
    // The job's record gets the message's own text, and both free it (src/slurmctld/job_mgr.c: _copy_job_desc_to_job_record).
    job->extra = NULL;
#endif
    // Each task of an array gets a copy of the record with the same text, and all free it (job_mgr.c: job_array_split).
    if (job->array_inx)
        job->x11_target = NULL;
    // Both divide by it (24.11: src/plugins/select/cons_tres/job_test.c: _socks_per_node; gres.c: gres_job_state_validate).
    if (job->ntasks_per_socket == 0)
        job->ntasks_per_socket = 1;
    // slurmctld makes the same 0 of their ratio, in 16 bits.
    if (job->tres_per_task)
        job->tres_per_socket = NULL;
    // A null pointer (24.11: src/plugins/topology/common/eval_nodes.c: _eval_nodes_spread).
    job->bitflags &= ~SPREAD_JOB;
}

/* Texts and numbers that a submission and a change have in common. `often`: in so many percent, each. */
static void wild(job_desc_msg_t *job, unsigned often) {
#define TEXT(field, pool) if (percent(often)) job->field = twist(ONE_OF(pool))
#define NUMBER(field) if (percent(often)) job->field = (__typeof__(job->field))odd()
    TEXT(account, names); TEXT(acctg_freq, names); TEXT(admin_comment, marks); TEXT(array_inx, arrays); TEXT(batch_features, features);
    TEXT(burst_buffer, names); TEXT(cluster_features, features); TEXT(comment, marks); TEXT(container, odd_paths);
    TEXT(cpus_per_tres, tres); TEXT(dependency, depends); TEXT(exc_nodes, hosts); TEXT(extra, marks); TEXT(features, features);
    TEXT(licenses, licences); TEXT(mail_user, names); TEXT(mcs_label, names); TEXT(mem_per_tres, tres); TEXT(name, names);
    TEXT(network, names); TEXT(partition, places); TEXT(prefer, features); TEXT(qos, names); TEXT(req_nodes, hosts);
    TEXT(reservation, names); TEXT(std_out, odd_paths); TEXT(submit_line, names); TEXT(tres_bind, binds); TEXT(tres_freq, freqs);
    TEXT(tres_per_job, tres); TEXT(tres_per_node, tres); TEXT(tres_per_socket, tres); TEXT(tres_per_task, tres); TEXT(wckey, names);
    TEXT(work_dir, odd_paths); TEXT(origin_cluster, names); TEXT(selinux_context, names);
    TEXT(alloc_node, hosts); TEXT(clusters, names); TEXT(cpu_bind, binds); TEXT(mem_bind, binds); TEXT(req_context, names);
    TEXT(resp_host, hosts); TEXT(std_err, odd_paths); TEXT(std_in, odd_paths); TEXT(x11_magic_cookie, names); TEXT(x11_target, odd_paths);
    NUMBER(begin_time); NUMBER(bitflags); NUMBER(contiguous); NUMBER(core_spec); NUMBER(cores_per_socket); NUMBER(cpus_per_task);
    NUMBER(deadline); NUMBER(delay_boot); NUMBER(end_time); NUMBER(immediate); NUMBER(kill_on_node_fail);
    NUMBER(max_cpus); NUMBER(max_nodes); NUMBER(min_cpus); NUMBER(min_nodes); NUMBER(nice); NUMBER(ntasks_per_core);
    NUMBER(ntasks_per_node); NUMBER(ntasks_per_socket); NUMBER(ntasks_per_tres); NUMBER(num_tasks); NUMBER(open_mode); NUMBER(overcommit);
    NUMBER(plane_size); NUMBER(pn_min_cpus); NUMBER(pn_min_memory); NUMBER(pn_min_tmp_disk); NUMBER(priority); NUMBER(profile);
    NUMBER(reboot); NUMBER(req_switch); NUMBER(requeue); NUMBER(restart_cnt); NUMBER(shared); NUMBER(site_factor);
    NUMBER(sockets_per_node); NUMBER(task_dist); NUMBER(threads_per_core); NUMBER(time_limit); NUMBER(time_min); NUMBER(wait4switch);
    NUMBER(wait_all_nodes); NUMBER(warn_flags); NUMBER(warn_signal); NUMBER(warn_time); NUMBER(het_job_offset); NUMBER(user_id);
    NUMBER(alloc_sid); NUMBER(alloc_resp_port); NUMBER(boards_per_node); NUMBER(cpu_bind_type); NUMBER(cpu_freq_gov); NUMBER(cpu_freq_max);
    NUMBER(cpu_freq_min); NUMBER(mail_type); NUMBER(mem_bind_type); NUMBER(ntasks_per_board); NUMBER(other_port); NUMBER(sockets_per_board);
    NUMBER(x11); NUMBER(x11_target_port);
    if (!mailed) {
        job->mail_type = 0;
        spare_slurmctld(job);
    }
#undef TEXT
#undef NUMBER
}

static void fuzzed(job_desc_msg_t *job) {
    plain(job);
    if (percent(70))
        job->spank_job_env = entries(&job->spank_job_env_size, percent(4), true);
    if (percent(20))
        job->environment = entries(&job->env_size, percent(6), true);
    if (percent(35))
        job->tres_per_node = twist(ONE_OF(tres));
    // Half of the jobs are odd in a field or two, so that many are accepted; a tenth are odd all over.
    unsigned kind = (unsigned)below(10);
    wild(job, kind < 4 ? 0 : kind < 9 ? 1 : 15);
    if (percent(5)) {
        job->argc = (uint32_t)below(40);
        job->argv = entries(&job->argc, false, false);
    }
}

static void fat(job_desc_msg_t *job) {
    plain(job);
    job->spank_job_env = entries(&job->spank_job_env_size, true, false);
    if (percent(50))
        job->environment = entries(&job->env_size, percent(50), false);
}

/* Submits a heterogeneous job: mostly two to five components, sometimes one, many, or more than sbatch makes. */
static int heterogeneous(submit_response_msg_t **answer) {
    static job_desc_msg_t components[COMPONENTS];
    uint64_t count = percent(85) ? 2 + below(4) : 1 + below(COMPONENTS);
    // Its type has another name in each release.
    __auto_type list = slurm_list_create(NULL);
    for (uint64_t i = 0; i < count; i++) {
        // If one component is refused, so is the job.
        (percent(60) ? plain : fuzzed)(&components[i]);
        slurm_list_append(list, &components[i]);
    }
    int rc = slurm_submit_batch_het_job(list, answer);
    slurm_list_destroy(list);
    return rc;
}

static int single(bool is_fat, submit_response_msg_t **answer) {
    job_desc_msg_t job;
    (is_fat ? fat : fuzzed)(&job);
    return slurm_submit_batch_job(&job, answer);
}

static uint32_t kept[KEPT];
static struct { int code; unsigned count; } reasons[REASONS];

static void keep(uint32_t id, unsigned long turn) {
    uint32_t *place = &kept[turn % KEPT];
    if (*place)
        slurm_kill_job(*place, SIGKILL, 0);
    *place = id;
}

static void refused(int code) {
    int i = 0;
    while (i < REASONS - 1 && reasons[i].count && reasons[i].code != code)
        i++;
    reasons[i].code = code;
    reasons[i].count++;
}

/* Changes a job that is there, as its owner. */
static bool change(uint32_t id) {
    job_desc_msg_t job;
    slurm_init_job_desc_msg(&job);
    // What stands for nobody depends on the release.
    uint32_t nobody = job.user_id;
    JOB_ID(&job) = id;
    wild(&job, 4);
    job.user_id = nobody;
    return slurm_update_job(&job) == SLURM_SUCCESS;
}

int main(int argc, char **argv) {
    if (argc != 5 || (strcmp(argv[1], "fuzz") && strcmp(argv[1], "stock") && strcmp(argv[1], "fat"))) {
        fprintf(stderr, "usage: submissions fuzz|stock|fat SEED FIRST COUNT\n");
        return 2;
    }
    mailed = !strcmp(argv[1], "fuzz");
    bool is_fat = !strcmp(argv[1], "fat");
    uint64_t seed = strtoull(argv[2], NULL, 10);
    unsigned long first = strtoul(argv[3], NULL, 10), count = strtoul(argv[4], NULL, 10), accepted = 0, changed = 0, several = 0;
    if (!getcwd(directory, sizeof directory))
        return 2;
    alarm(SECONDS);
    slurm_init(NULL);
    for (unsigned long i = first; i < first + count; i++) {
        submit_response_msg_t *answer = NULL;
        bool is_het = !is_fat && i % HETEROGENEOUS == HETEROGENEOUS - 1;
        state = seed * 0xd1342543de82ef95 + i;
        errno = 0;
        int rc = is_het ? heterogeneous(&answer) : single(is_fat, &answer);
        if (rc == SLURM_SUCCESS && answer) {
            keep(JOB_ID(answer), accepted++);
            several += is_het;
            slurm_free_submit_response_response_msg(answer);
        } else {
            refused(errno);
        }
        if (!is_fat && accepted && percent(10))
            changed += change(kept[below(accepted < KEPT ? accepted : KEPT)]);
        free_pieces();
        if (i % 16 == 0 && slurm_ping(0) != SLURM_SUCCESS) {
            fprintf(stderr, "slurmctld does not answer after submission %lu\n", i);
            return 3;
        }
    }
    for (unsigned long i = 0; i < KEPT; i++)
        keep(0, i);
    for (int i = 0; i < REASONS && reasons[i].count; i++)
        printf("refused %u: %d %s\n", reasons[i].count, reasons[i].code, slurm_strerror(reasons[i].code));
    printf("submitted %lu accepted %lu changed %lu heterogeneous %lu\n", count, accepted, changed, several);
    slurm_fini();
    return 0;
}
