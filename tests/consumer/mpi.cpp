// A world over MPI, without a launcher: an installed gx::mpi compiles, links and says so.
#include <gx/mpi/world.hpp>

#include <cstdio>
#include <cstdlib>
#include <string>

int main() {
    try {
        const gx::mpi::World<> world;
    } catch (const gx::Error& e) {
        std::puts(e.what());
        const bool right = std::string(e.what()).starts_with("no MPI launcher has started");
        return right ? EXIT_SUCCESS : EXIT_FAILURE;
    }
    return EXIT_FAILURE;
}
