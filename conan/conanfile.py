# Recipe of the header-only package gx. The libraries it needs are Conan's; oneDNN, where it is
# asked for, is the system's, as are CUDA's headers. Nothing is built but the test_package, and
# what is asked for of LIBRARIES.
#
#     conan create conan --build=missing -s compiler.cppstd=20
import re
from pathlib import Path

from conan import ConanFile
from conan.tools.build import check_min_cppstd
from conan.tools.cmake import CMake, CMakeToolchain
from conan.tools.files import copy, load

COMPONENTS = {  # option with_NAME, CMake's GX_WITH_NAME, find_package's component NAME
    "sim": True,
    "reference": True,
    "halving_doubling": True,
    "hierarchical": True,
    "local_sgd": True,
    "parameter_server": True,
    "quantized": True,
    "recursive_doubling": True,
    "sharded": True,
    "shared_memory": True,
    "top_k": True,
    "trees": True,
    "image": False,  # needs the system's libjpeg-turbo and libpng
    "onednn": False,  # needs the system's oneDNN
    "onnx": False,  # needs the system's ONNX and Protobuf
    "mpi": False,  # needs the system's Open MPI or MPICH
    "cuda": False,  # needs the headers of a CUDA toolkit
    "nccl": False,  # needs nccl.h, and cuda
}
LIBRARIES = {  # option with_NAME, find_package's component NAME: CMake's option; all need cuda
    "cuda_gpu": "GX_CUDA_GPU",  # needs nvcc, cuDNN
    "cuda_testing": "GX_CUDA_TESTING",  # needs the headers of cuDNN and NCCL
}


class Gx(ConanFile):
    name = "gx"
    license = "MIT"
    description = "Data-parallel training composed as a type, on real and on simulated clusters"
    topics = ("machine-learning", "distributed", "simulation", "header-only")
    package_type = "header-library"
    settings = "os", "compiler", "build_type", "arch"
    generators = "CMakeDeps"
    options = {f"with_{name}": [True, False] for name in [*COMPONENTS, *LIBRARIES]}
    default_options = {
        **{f"with_{name}": default for name, default in COMPONENTS.items()},
        **{f"with_{name}": False for name in LIBRARIES},
        "boost/*:without_context": False,
    }
    no_copy_source = True

    def set_version(self):  # CMakeLists.txt is where it stands
        text = load(self, Path(self.recipe_folder).parent / "CMakeLists.txt")
        self.version = re.search(r"project\(gx VERSION ([0-9.]+)", text).group(1)

    def export_sources(self):
        root = Path(self.recipe_folder).parent
        for pattern in ("CMakeLists.txt", "LICENSE", "cmake/*", "include/*", "sims/*",
                        "reference/*", "plugins/*"):
            copy(self, pattern, src=root, dst=self.export_sources_folder)

    def requirements(self):
        self.requires("boost/1.81.0")
        self.requires("fmt/9.1.0")
        self.requires("xxhash/0.8.1")
        self.requires("zlib/[>=1.2.13 <2]")

    def validate(self):
        check_min_cppstd(self, 20)

    def has_libraries(self):
        return any(self.options.get_safe(f"with_{name}") for name in LIBRARIES)

    def configure(self):
        if self.has_libraries():
            self.package_type = "static-library"

    def package_id(self):  # the headers are the same for all compilers, and differ by components
        if self.info.options.with_cuda_gpu or self.info.options.with_cuda_testing:
            return
        self.info.settings.clear()
        self.info.requires.clear()

    def generate(self):
        toolchain = CMakeToolchain(self)
        for part in ("TESTS", "EXAMPLES", "BENCHMARKS", "COMPILED"):
            toolchain.cache_variables[f"GX_BUILD_{part}"] = False
        for name in COMPONENTS:
            wanted = bool(self.options.get_safe(f"with_{name}"))
            if name == "cuda":
                wanted = wanted or self.has_libraries()
            toolchain.cache_variables[f"GX_WITH_{name.upper()}"] = wanted
        for name, variable in LIBRARIES.items():
            wanted = bool(self.options.get_safe(f"with_{name}"))
            toolchain.cache_variables[variable] = wanted
        toolchain.generate()

    def build(self):
        CMake(self).configure()
        if self.has_libraries():
            CMake(self).build()

    def package(self):
        copy(self, "LICENSE", src=self.source_folder, dst=Path(self.package_folder) / "licenses")
        CMake(self).install()

    def package_info(self):
        # gx's own gxConfig.cmake, which knows the components, is what consumers find.
        self.cpp_info.set_property("cmake_find_mode", "none")
        self.cpp_info.builddirs = ["lib/cmake/gx"]
        self.cpp_info.bindirs = []
        self.cpp_info.libdirs = []
