# Every outside library of the project, found once. Debian 12's packages, and libtorch from the wheel in .venv (or any
# other given by -DTorch_DIR=.../share/cmake/Torch).
find_package(Threads REQUIRED)
find_package(absl REQUIRED)
find_package(Protobuf REQUIRED)  # module mode: Debian's package has no config file
find_package(gRPC CONFIG REQUIRED)
find_package(SQLite3 REQUIRED)
find_package(OpenSSL REQUIRED)
find_package(CLI11 CONFIG REQUIRED)
find_package(nlohmann_json CONFIG REQUIRED)
find_package(fmt CONFIG REQUIRED)
find_package(Boost 1.74 REQUIRED COMPONENTS context)
find_package(LLVM 19.1 CONFIG REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(SECCOMP REQUIRED IMPORTED_TARGET libseccomp)

if(QGPU_TESTS)
  find_package(GTest REQUIRED)
  include(GoogleTest)
endif()

if(QGPU_TORCH)
  if(NOT Torch_DIR)
    file(GLOB torch_candidates ${CMAKE_SOURCE_DIR}/.venv/lib/python3*/site-packages/torch/share/cmake/Torch)
    list(GET torch_candidates 0 torch_first)
    set(Torch_DIR "${torch_first}" CACHE PATH "Folder with TorchConfig.cmake")
  endif()
  # Never through CMAKE_PREFIX_PATH: the wheel ships old protobuf headers that would shadow Debian's.
  find_package(Torch REQUIRED CONFIG NO_DEFAULT_PATH PATHS ${Torch_DIR})
  add_library(qgpu_torch_sdk INTERFACE)
  # Searched last, and by no other way: the wheel also ships fmt, protobuf and others of versions that are not linked here.
  foreach(library torch torch_cpu torch_library c10)
    if(TARGET ${library})
      set_target_properties(${library} PROPERTIES INTERFACE_INCLUDE_DIRECTORIES "" INTERFACE_SYSTEM_INCLUDE_DIRECTORIES "")
    endif()
  endforeach()
  foreach(directory ${TORCH_INCLUDE_DIRS})
    target_compile_options(qgpu_torch_sdk INTERFACE "SHELL:-idirafter ${directory}")
  endforeach()
  target_link_libraries(qgpu_torch_sdk INTERFACE ${TORCH_LIBRARIES})
  target_compile_options(qgpu_torch_sdk INTERFACE ${TORCH_CXX_FLAGS})
endif()

# LLVM as one shared library: linking the static components takes minutes and gigabytes.
add_library(qgpu_llvm_sdk INTERFACE)
target_include_directories(qgpu_llvm_sdk SYSTEM INTERFACE ${LLVM_INCLUDE_DIRS})
target_compile_definitions(qgpu_llvm_sdk INTERFACE ${LLVM_DEFINITIONS_LIST})
target_link_libraries(qgpu_llvm_sdk INTERFACE LLVM)
target_link_directories(qgpu_llvm_sdk INTERFACE ${LLVM_LIBRARY_DIRS})
