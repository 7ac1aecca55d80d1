/* Says of each device of a job's whether its user may see it now: `has MIG-… 1g.5gb`, `has GPU-…` or `lacks MIG-… WHY`.
 *
 * It asks for each by its UUID, which the driver answers at one moment. `nvidia-smi -L` asks for one instance after the other by
 * its place; when another job of the user ends on the same GPU meanwhile, the next instance moves up and is passed over. */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

typedef struct device *device_t;

static int lacks(const char *name, const char *why, int code)
{
	return printf("lacks %s %s %d\n", name, why, code);
}

int main(int argc, char **argv)
{
	void *nvml = dlopen("libnvidia-ml.so.1", RTLD_NOW);
	int (*init)(void) = nvml ? dlsym(nvml, "nvmlInit_v2") : NULL;
	int (*by_uuid)(const char *, device_t *) = nvml ? dlsym(nvml, "nvmlDeviceGetHandleByUUID") : NULL;
	int (*get_name)(device_t, char *, unsigned) = nvml ? dlsym(nvml, "nvmlDeviceGetName") : NULL;
	int ready = init && by_uuid && get_name ? init() : -1;

	for (int at = 1; at < argc; at++) {
		char text[96] = "";
		device_t device;
		if (ready != 0) {
			lacks(argv[at], "init", ready);
			continue;
		}
		int rc = by_uuid(argv[at], &device);
		if (rc != 0) {
			lacks(argv[at], "handle", rc);
			continue;
		}
		rc = get_name(device, text, sizeof(text));
		const char *profile = strstr(text, "MIG ");
		if (rc != 0)
			lacks(argv[at], "name", rc);
		else
			printf("has %s %s\n", argv[at], profile ? profile + 4 : "");
	}
	return 0;
}
