/* Submits jobs, reads tables and ends jobs through the public library, and times each message, as `cargo xtask bench scale` asks.
 *
 *   scale submit FILE       a job for each line of FILE: label, batch or alloc, GRES per node or -, cores, minutes, partition, nodes,
 *                           value of TESSERA_REQUEST or -, user id, group id; separated by tabs. `alloc` asks for an allocation
 *                           without a shell: nothing is launched.
 *   scale load WHAT COUNT   jobs, nodes, partitions or ping, so many times
 *   scale cancel FILE       ends the jobs whose numbers FILE has, one in a line
 *
 * Prints a line for each message: its time in microseconds, and for `submit` the job's number (0: refused), 1 if it got its nodes
 * at once, and the label; what was refused is also told on stderr. Exit codes: 0, 1 if `load` or `cancel` failed, 2 for wrong
 * arguments. */
#include <slurm/slurm.h>
#include <slurm/slurm_errno.h>
#include <slurm/slurm_version.h>

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

// A message names its job in the id of a step from 25.11 on.
#if SLURM_VERSION_NUMBER < SLURM_VERSION_NUM(25, 11, 0)
#define JOB_ID(message) ((message)->job_id)
#else
#define JOB_ID(message) ((message)->step_id.job_id)
#endif

enum { FIELDS = 10 };
enum field { LABEL, MODE, GRES, CORES, MINUTES, PARTITION, NODES, REQUEST, USER, GROUP };

static double now_us(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e6 + (double)time.tv_nsec / 1e3;
}

static char *given(char *text) { return strcmp(text, "-") ? text : NULL; }

static void fill(job_desc_msg_t *job, char **field) {
    static char host[64], request[512];
    static char *spank[] = {request}, *environment[] = {"PATH=/usr/bin:/bin", "HOME=/tmp", NULL};
    uint32_t nodes = (uint32_t)strtoul(field[NODES], NULL, 10), cores = (uint32_t)strtoul(field[CORES], NULL, 10);
    gethostname(host, sizeof host - 1);
    slurm_init_job_desc_msg(job);
    job->name = field[LABEL];
    job->user_id = (uint32_t)strtoul(field[USER], NULL, 10);
    job->group_id = (uint32_t)strtoul(field[GROUP], NULL, 10);
    job->min_nodes = job->max_nodes = job->num_tasks = nodes;
    job->ntasks_per_node = 1;
    job->cpus_per_task = (uint16_t)cores;
    job->min_cpus = cores * nodes;
    job->time_limit = (uint32_t)strtoul(field[MINUTES], NULL, 10);
    job->partition = field[PARTITION];
    job->work_dir = "/tmp";
    job->tres_per_node = given(field[GRES]);
    if (given(field[REQUEST])) {
        snprintf(request, sizeof request, "TESSERA_REQUEST=%s", field[REQUEST]);
        job->spank_job_env = spank;
        job->spank_job_env_size = 1;
    }
    job->environment = environment;
    job->env_size = 2;
    job->alloc_node = host;
    job->alloc_sid = (uint32_t)getpid();
}

/* Submits one job and prints its line. */
static void submit(char **field) {
    job_desc_msg_t job;
    uint32_t id = 0;
    bool runs = false;
    fill(&job, field);
    double begin = now_us(), end;
    if (!strcmp(field[MODE], "batch")) {
        submit_response_msg_t *answer = NULL;
        job.script = "#!/bin/sh\nsleep 36000\n";
        job.std_in = job.std_out = job.std_err = "/dev/null";
        if (!slurm_submit_batch_job(&job, &answer) && answer)
            id = JOB_ID(answer);
        end = now_us();
        if (answer)
            slurm_free_submit_response_response_msg(answer);
    } else {
        resource_allocation_response_msg_t *answer = NULL;
        if (!slurm_allocate_resources(&job, &answer) && answer) {
            id = JOB_ID(answer);
            runs = answer->node_cnt > 0;
        }
        end = now_us();
        if (answer)
            slurm_free_resource_allocation_response_msg(answer);
    }
    if (!id)
        fprintf(stderr, "%s: %s\n", field[LABEL], slurm_strerror(errno));
    printf("%.0f\t%u\t%d\t%s\n", end - begin, id, runs, field[LABEL]);
}

static int submit_all(FILE *file) {
    char line[4096];
    while (fgets(line, sizeof line, file)) {
        char *field[FIELDS];
        int count = 0;
        line[strcspn(line, "\n")] = 0;
        for (char *part = strtok(line, "\t"); part && count < FIELDS; part = strtok(NULL, "\t"))
            field[count++] = part;
        if (count < FIELDS) {
            fprintf(stderr, "a line has %d fields instead of %d\n", count, FIELDS);
            return 2;
        }
        submit(field);
    }
    return 0;
}

/* Reads one table, all of it. */
static bool load(const char *what) {
    if (!strcmp(what, "jobs")) {
        job_info_msg_t *table = NULL;
        bool read = !slurm_load_jobs(0, &table, SHOW_ALL);
        if (read)
            slurm_free_job_info_msg(table);
        return read;
    }
    if (!strcmp(what, "nodes")) {
        node_info_msg_t *table = NULL;
        bool read = !slurm_load_node(0, &table, SHOW_ALL);
        if (read)
            slurm_free_node_info_msg(table);
        return read;
    }
    if (!strcmp(what, "partitions")) {
        partition_info_msg_t *table = NULL;
        bool read = !slurm_load_partitions(0, &table, SHOW_ALL);
        if (read)
            slurm_free_partition_info_msg(table);
        return read;
    }
    return !slurm_ping(0);
}

static int load_often(const char *what, unsigned long count) {
    for (unsigned long i = 0; i < count; i++) {
        double begin = now_us();
        if (!load(what)) {
            fprintf(stderr, "%s: %s\n", what, slurm_strerror(errno));
            return 1;
        }
        printf("%.0f\n", now_us() - begin);
    }
    return 0;
}

static int cancel_all(FILE *file) {
    unsigned id, failed = 0;
    while (fscanf(file, "%u", &id) == 1) {
        double begin = now_us();
        if (slurm_kill_job(id, SIGKILL, 0)) {
            fprintf(stderr, "job %u: %s\n", id, slurm_strerror(errno));
            failed++;
        }
        printf("%.0f\n", now_us() - begin);
    }
    return failed > 0;
}

int main(int argc, char **argv) {
    if (argc < 3)
        return 2;
    slurm_init(NULL);
    if (!strcmp(argv[1], "load") && argc == 4)
        return load_often(argv[2], strtoul(argv[3], NULL, 10));
    FILE *file = fopen(argv[2], "r");
    if (!file) {
        perror(argv[2]);
        return 2;
    }
    if (!strcmp(argv[1], "submit"))
        return submit_all(file);
    return strcmp(argv[1], "cancel") ? 2 : cancel_all(file);
}
