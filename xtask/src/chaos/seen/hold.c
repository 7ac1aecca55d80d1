/* A program that knows nothing of GPU tasks: hold MIB. It sees one device and takes seven eighths of MIB there; the rest is for
 * what the driver rounds up. Its last line says what went wrong, or how much it had and where. */
#include <cuda.h>

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { PIECE_MIB = 128, PIECES = 512 };

static int failed(const char *what, int result)
{
	printf("%s: %d\n", what, result);
	return 1;
}

int main(int argc, char **argv)
{
	long most = argc > 1 ? atol(argv[1]) : 0;
	static CUdeviceptr pieces[PIECES];
	CUcontext context;
	CUdevice device;
	CUuuid uuid;
	int result, count = 0, got = 0;

	if ((result = cuInit(0)))
		return failed("cuInit", result);
	if ((result = cuDeviceGetCount(&count)) || count != 1)
		return failed(result ? "cuDeviceGetCount" : "devices", result ? result : count);
	if ((result = cuDeviceGet(&device, 0)) || (result = cuDeviceGetUuid_v2(&uuid, device)))
		return failed("cuDeviceGet", result);
	if ((result = cuDevicePrimaryCtxRetain(&context, device)) || (result = cuCtxSetCurrent(context)))
		return failed("context", result);
	while (got < PIECES && (got + 1) * PIECE_MIB <= most - most / 8) {
		if ((result = cuMemAlloc(&pieces[got], (size_t)PIECE_MIB << 20)))
			return failed("cuMemAlloc of what it was promised", result);
		got++;
	}
	usleep(300000);
	for (int i = 0; i < got; i++)
		if ((result = cuMemFree(pieces[i])))
			return failed("cuMemFree", result);
	printf("had %d MiB on ", got * PIECE_MIB);
	for (int i = 0; i < 16; i++)
		printf("%02x", (unsigned char)uuid.bytes[i]);
	printf("\n");
	return 0;
}
