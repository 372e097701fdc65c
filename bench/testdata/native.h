/* What the native references have in common: the vendor's two libraries and their calls. */
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

typedef void *handle;

static void *runtime, *driver;

static void *symbol(void *lib, const char *name)
{
	void *p = dlsym(lib, name);
	if (p == NULL) {
		fprintf(stderr, "%s\n", dlerror());
		exit(1);
	}
	return p;
}

static void need(int code, const char *what)
{
	if (code == 0)
		return;
	fprintf(stderr, "%s: %d\n", what, code);
	exit(1);
}

#define RUNTIME(name, ...) ((int (*)(__VA_ARGS__))symbol(runtime, #name))
#define DRIVER(name, ...) ((int (*)(__VA_ARGS__))symbol(driver, #name))
