// The source that the precompiled headers of the tests are built for.
